// What `vkattn layer` refuses: usage, the folder of parameters, shapes that disagree, and outputs,
// each with a message that names what is wrong.
#include "layer_fixture.hpp"

namespace {

class LayerRefusal : public LayerTest {
  protected:
    LayerRefusal() { given({}); }
    void refused(const Arguments &more, const std::vector<std::string> &words) const {
        expectRefused(tool(command(more)), words);
        EXPECT_FALSE(exists("w.npy"));
    }
    // With an array of that shape as a file, "p/wq.npy" or another, and the file as it was before
    // afterwards.
    void refusedWith(const std::string &name, const std::vector<size_t> &shape, const std::vector<std::string> &words,
                     const Arguments &more = {}, const std::string &descr = "<f4") const {
        SCOPED_TRACE(name);
        const bool old = exists(name);
        if (old) std::filesystem::rename(file(name), file("kept"));
        writeNpy(file(name), Array{shape, std::vector<double>(Array::count(shape))}, {.descr = descr});
        refused(more, words);
        std::filesystem::remove(file(name));
        if (old) std::filesystem::rename(file("kept"), file(name));
    }
    // Of the values of one option that stand in place of the fixture's.
    void refusedHeads(const std::string &heads, const Arguments &more, const std::vector<std::string> &words) const {
        Arguments arguments = {"layer", "--x", "x.npy", "--params", "p", "--out", "o.npy", "--device", "cpu", "--heads", heads};
        arguments.insert(arguments.end(), more.begin(), more.end());
        expectRefused(tool(arguments), words);
    }
};

TEST_F(LayerRefusal, helpNamesEveryOption) {
    const Outcome outcome = tool({"layer", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option :
         {"--x",         "--context",       "--params",      "--heads",        "--kv-heads",        "--norm",
          "--residual",  "--eps",           "--out",         "--weights",      "--average-weights", "--round-to",
          "--out-dtype", "--mask",          "--bias",        "--causal",       "--window",          "--scale",
          "--rotary",    "--rotary-dims",   "--rotary-base", "--rotary-start", "--softcap",         "--kv-lengths",
          "--sinks",     "--lse",           "--device",      "--verify",       "--no-fallback",     "--repeat",
          "--json",      "--output-dropout"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    EXPECT_NE(outcome.out.find("Exit status: 0 success"), std::string::npos);
    EXPECT_NE(tool({"--help"}).out.find("\n  layer "), std::string::npos);
}

TEST_F(LayerRefusal, unknownAndMissingOptions) {
    refused({"--flash"}, {"--flash", "vkattn layer --help"});
    refused({"--q", "x.npy"}, {"--q"});
    refused({"extra"}, {"extra"});
    const Arguments all = {"--x", "x.npy", "--params", "p", "--heads", "2", "--out", "o.npy"};
    for (size_t n = 0; n < all.size(); n += 2) {
        Arguments arguments = all;
        arguments.erase(arguments.begin() + static_cast<long>(n), arguments.begin() + static_cast<long>(n) + 2);
        arguments.insert(arguments.begin(), "layer");
        expectRefused(tool(arguments), {all[n] + " is required"});
    }
    refused({"--context", ""}, {"--context needs a value"});
    refused({"--weights", "--json"}, {"--weights needs a value", "'--json'"});
    expectRefused(tool({"layer", "--x", "x.npy", "--params", "", "--heads", "2", "--out", "o.npy"}), {"--params needs a value"});
}

TEST_F(LayerRefusal, heads) {
    for (const std::string value : {"0", "-1", "2.0", "two", "1048577"})
        refusedHeads(value, {}, {"--heads takes a whole number from 1 to 1048576, not '" + value + "'"});
    for (const std::string value : {"0", "-1", "x"})
        refusedHeads("2", {"--kv-heads", value}, {"--kv-heads takes a whole number from 1 to 1048576, not '" + value + "'"});
    refusedHeads("3", {}, {"p/wq.npy (8, 8) float32: has 8 rows, expected a multiple of --heads 3"});
    refusedHeads("4", {"--kv-heads", "3"}, {"--kv-heads 3 does not divide --heads 4"});
    refusedHeads("2", {"--kv-heads", "4"}, {"--kv-heads 4 does not divide --heads 2"});
    refusedHeads("16", {}, {"p/wq.npy (8, 8) float32: has 8 rows, expected a multiple of --heads 16"});
}

TEST_F(LayerRefusal, norms) {
    for (const std::string value : {"Post", "layer", "1", "before"})
        refused({"--norm", value}, {"--norm takes none, post or pre, not '" + value + "'"});
    refused({"--eps", "1e-5"}, {"--eps is of the norm, and there is none", "add --norm post or --norm pre"});
    refused({"--eps", "1e-5", "--norm", "none"}, {"--eps is of the norm, and there is none"});
    normed(NormPlace::post);
    for (const std::string value : {"-1", "-1e-60", "nan", "inf", "1e39", "small", "1e-5x"})
        refused({"--eps", value}, {"--eps takes a finite number of 0 or more like 1e-5, not '" + value + "'"});
    refused({"--eps", "1e-60"}, {"--eps 1e-60 is too small for float32", "give 0 or a larger number"});
    refused({"--eps", ""}, {"--eps needs a value"});
}

TEST_F(LayerRefusal, rotaryEmbeddings) {
    for (const std::string value : {"Half", "neox", "1"})
        refused({"--rotary", value}, {"--rotary takes half or interleaved, not '" + value + "'"});
    for (const std::string value : {"0", "3", "-2", "two"})
        refused({"--rotary", "half", "--rotary-dims", value}, {"--rotary-dims takes an even number of 2 or more, not '" + value + "'"});
    for (const std::string value : {"0", "-1", "inf", "nan", "many"})
        refused({"--rotary", "half", "--rotary-base", value},
                {"--rotary-base takes a finite number above 0 like 10000, not '" + value + "'"});
    refused({"--rotary", "half", "--rotary-start", "-1"}, {"--rotary-start takes a whole number from 0 to 4294967295, not '-1'"});
    for (const Arguments &option : std::vector<Arguments>{{"--rotary-dims", "2"}, {"--rotary-base", "500"}, {"--rotary-start", "0"}})
        refused(option, {option[0] + " is of the rotary embedding, and there is none", "add --rotary half or --rotary interleaved"});
    refused({"--rotary", "half", "--rotary-dims", "6"}, {"--rotary-dims is 6, and heads have 4, expected an even number from 2 to 4"});
    refused({"--rotary", "half", "--rotary-start", "4294967295"},
            {"--rotary-start 4294967295 puts the last token of x.npy", "at most 4294967295"});
    refused({"--rotary", "half", "--context", "x.npy"}, {"--rotary and --context are both given", "positions of their own"});
    given({.headDim = 3});
    refused({"--rotary", "half"}, {"--rotary turns pairs of dims, and heads have 3", "say with --rotary-dims how many are turned"});
    EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
}

TEST_F(LayerRefusal, otherValues) {
    refused({"--average-weights"}, {"--average-weights says how --weights is written, and there is none", "add --weights FILE"});
    refused({"--output-dropout", "1.5"}, {"--output-dropout takes a probability from 0 (none) to 1", "'1.5'"});
    refused({"--seed", "1"}, {"--seed says how weights are dropped, and nothing drops any"});
    refused({"--output-dropout", "0.5", "--weights", "w.npy", "--weights-after-dropout"},
            {"--weights-after-dropout says how", "add --dropout"});
    refused({"--round-to", "f32"}, {"--round-to takes f16 or bf16, not 'f32'"});
    refused({"--out-dtype", "f64"}, {"--out-dtype takes f32, f16 or bf16, not 'f64'"});
    refused({"--verify=some"}, {"--verify takes", "'some'"});
    refused({"--repeat", "0"}, {"--repeat takes a whole number"});
    refused({"--align", "top-left"}, {"--align says where a query stands"});
    refused({"--mask", "m.npy", "--bitmask", "b.npy"}, {"--mask and --bitmask are both given"});
    expectRefused(tool({"layer", "--x", "x.npy", "--params", "p", "--heads", "2", "--out", "o.npy", "--device", ""}),
                  {"--device needs a value"});
}

TEST_F(LayerRefusal, theFolder) {
    const auto in = [&](const std::string &folder) {
        return tool({"layer", "--x", "x.npy", "--params", folder, "--heads", "2", "--out", "o.npy", "--device", "cpu"});
    };
    for (const std::string folder : {"missing", "x.npy"})
        expectRefused(in(folder),
                      {"--params " + folder + ": there is no such folder, expected one with wq.npy, wk.npy, wv.npy and wo.npy"});
    for (const std::string name : {"wq.npy", "wk.npy", "wv.npy", "wo.npy"}) {
        std::filesystem::rename(file("p") / name, file("kept"));
        refused({}, {"--params p: there is no " + name + ", expected wq.npy, wk.npy, wv.npy and wo.npy as [out, in]"});
        std::filesystem::create_directory(file("p") / name);
        refused({}, {"p/" + name + ": it is a directory, expected a .npy file"});
        std::filesystem::remove(file("p") / name);
        std::filesystem::rename(file("kept"), file("p") / name);
    }
    // A link that leads nowhere is not left out, as an absent bias is.
    for (const std::string name : {"bq.npy", "wk.npy"}) {
        std::filesystem::rename(file("p") / name, file("kept"));
        std::filesystem::create_symlink("nowhere", file("p") / name);
        refused({}, {"p/" + name + ": no such file"});
        std::filesystem::remove(file("p") / name);
        std::filesystem::rename(file("kept"), file("p") / name);
    }
}

TEST_F(LayerRefusal, normsWithoutTheirFiles) {
    for (const NormPlace place : {NormPlace::post, NormPlace::pre})
        for (const std::string name : {"gamma.npy", "beta.npy"}) {
            normed(place);
            std::filesystem::remove(file("p") / name);
            refused({}, {"--params p: there is no " + name, "--norm takes gamma.npy and beta.npy", "save ones and zeros"});
        }
}

TEST_F(LayerRefusal, arraysThatAreNone) {
    refused({"--context", "missing.npy"}, {"missing.npy: no such file"});
    for (const std::string name : {"x.npy", "p/wv.npy", "p/bo.npy"}) {
        const std::string bytes = readBytes(file(name));
        writeBytes(file(name), bytes.substr(0, bytes.size() - 3));
        refused({}, {name + ": truncated", "copy or save it again"});
        writeBytes(file(name), "no array");
        refused({}, {name + ": not a .npy file"});
        writeBytes(file(name), bytes);
    }
    for (const std::string descr : {"<i4", "<i8", "|u1", "<c8"})
        refusedWith("p/wq.npy", {8, 8}, {"p/wq.npy: it holds ", "but --params takes float32 or float16"}, {}, descr);
    refusedWith("p/bv.npy", {8}, {"p/bv.npy: it holds int32, but --params takes float32 or float16"}, {}, "<i4");
    refusedWith("x.npy", {2, 5, 8}, {"x.npy: it holds int32, but --x takes float32 or float16"}, {}, "<i4");
    refusedWith("c.npy", {2, 5, 8}, {"c.npy: it holds bool, but --context takes float32 or float16"}, {"--context", "c.npy"}, "|b1");
}

TEST_F(LayerRefusal, ranks) {
    const std::string tokens = "expected 2 to 3: [token, model] or [batch, token, model]";
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {8}, {1, 2, 5, 8}, {1, 1, 1, 5, 8}}) {
        const std::string found = "has " + std::to_string(shape.size()) + " dimension";
        refusedWith("x.npy", shape, {"x.npy: shape (", found, tokens});
        refusedWith("c.npy", shape, {"c.npy: shape (", found, tokens}, {"--context", "c.npy"});
    }
    for (const std::string name : {"p/wq.npy", "p/wo.npy"})
        for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{64}, {1, 8, 8}})
            refusedWith(name, shape, {name + ": shape (", "expected 2: [out, in]"});
    for (const std::string name : {"p/bq.npy", "p/bo.npy"})
        for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1, 8}, {8, 1}})
            refusedWith(name, shape, {name + ": shape (", "expected 1: [out]"});
    normed(NormPlace::pre);
    refusedWith("p/gamma.npy", {1, 8}, {"p/gamma.npy: shape (1, 8) has 2 dimensions, expected 1: [model]"});
}

TEST_F(LayerRefusal, matricesThatDisagree) {
    given({.heads = 4, .kvHeads = 2, .headDim = 2, .valueDim = 3});
    refusedWith("p/wq.npy", {6, 8}, {"p/wq.npy (6, 8) float32: has 6 rows, expected a multiple of --heads 4"});
    refusedWith("p/wq.npy", {0, 8}, {"p/wq.npy (0, 8) float32: has 0 rows, expected a multiple of --heads 4"});
    refusedWith("p/wk.npy", {3, 8}, {"p/wk.npy (3, 8) float32: has 3 rows, expected a multiple of --kv-heads 2"});
    refusedWith("p/wk.npy", {6, 8}, {"p/wk.npy (6, 8) float32: has 6 rows, expected --kv-heads * head dim = 2 * 2", "p/wq.npy (8, 8)"});
    refusedWith("p/wv.npy", {5, 8}, {"p/wv.npy (5, 8) float32: has 5 rows, expected a multiple of --kv-heads 2"});
    refusedWith("p/wo.npy", {8, 8}, {"p/wo.npy (8, 8) float32: has 8 columns, expected --heads * value dim = 4 * 3", "p/wv.npy (6, 8)"});
    refusedWith("p/wo.npy", {0, 12}, {"p/wo.npy (0, 12) float32: has 0 rows, expected at least 1"});
    for (const std::string name : {"p/wq.npy", "p/wk.npy", "p/wv.npy"}) {
        const size_t rows = name == "p/wq.npy" ? 8 : name == "p/wk.npy" ? 4 : 6;
        refusedWith(name, {rows, 7}, {"shapes disagree: " + name, "x.npy (2, 5, 8) float32", "as many numbers as a token, 8"});
        refusedWith(name, {rows, 0}, {"shapes disagree: " + name});
    }
    // Keys and values are made of the context, queries of the tokens.
    given({.context = {2, 3, 6}});
    refusedWith("p/wk.npy", {8, 8}, {"shapes disagree: p/wk.npy (8, 8) float32 and context.npy (2, 3, 6) float32", "as a token, 6"});
    refusedWith("p/wq.npy", {8, 6}, {"shapes disagree: p/wq.npy (8, 6) float32 and x.npy (2, 5, 8) float32", "as a token, 8"});
}

TEST_F(LayerRefusal, matricesWithoutKvHeadsSpeakOfHeads) {
    refusedWith("p/wk.npy", {7, 8}, {"p/wk.npy (7, 8) float32: has 7 rows, expected a multiple of --heads 2"});
    refusedWith("p/wk.npy", {6, 8}, {"p/wk.npy (6, 8) float32: has 6 rows, expected --heads * head dim = 2 * 4", "--kv-heads"});
}

TEST_F(LayerRefusal, headsThatAreTooLarge) {
    given({.x = {2, 2}, .heads = 1, .kvHeads = 1, .headDim = 2049, .valueDim = 2, .out = 2, .biases = false});
    refused({}, {"2049", "2048", "p/wq.npy (2049, 2) float32"});
}

TEST_F(LayerRefusal, vectorsOfOtherLengths) {
    given({.heads = 4, .kvHeads = 2, .headDim = 2, .valueDim = 3, .out = 10});
    const std::vector<std::pair<std::string, std::string>> biases = {{"bq", "8"}, {"bk", "4"}, {"bv", "6"}, {"bo", "10"}};
    for (const auto &[name, rows] : biases)
        for (const size_t length : {size_t{0}, size_t{1}, size_t{7}})
            refusedWith("p/" + name + ".npy", {length},
                        {"p/" + name + ".npy (" + std::to_string(length) + ",) float32: expected one number for each row of p/w" +
                         name.substr(1) + ".npy (" + rows + ", "});
    for (const NormPlace place : {NormPlace::post, NormPlace::pre}) {
        normed(place);
        const std::string what =
            place == NormPlace::pre ? "dim of x.npy (2, 5, 8) float32, shape (8,)" : "row of p/wo.npy (10, 12) float32, shape (10,)";
        for (const std::string name : {"p/gamma.npy", "p/beta.npy"})
            for (const size_t length : {size_t{1}, size_t{9}})
                refusedWith(name, {length}, {name + " (" + std::to_string(length) + ",) float32: expected one number for each " + what});
    }
}

TEST_F(LayerRefusal, residualOfAnotherLength) {
    given({.out = 10});
    refused({"--residual"}, {"p/wo.npy (10, 8) float32", "x.npy (2, 5, 8) float32", "--residual adds the tokens to the output", "8",
                             "leave --residual out"});
}

TEST_F(LayerRefusal, contextsThatDisagree) {
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{3, 5, 8}, {1, 5, 8}, {5, 8}})
        refusedWith("c.npy", shape,
                    {"shapes disagree: x.npy (2, 5, 8) float32 and c.npy (", "the same batch (first of 3 dimensions), not 2 and"},
                    {"--context", "c.npy"});
    refusedWith("c.npy", {2, 5, 0}, {"c.npy (2, 5, 0) float32: has zero elements in a row"}, {"--context", "c.npy"});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{0, 5, 8}, {5, 0}})
        refusedWith("x.npy", shape, {"x.npy", "zero", "only the number of tokens may be 0"});
}

TEST_F(LayerRefusal, optionsOfTheAttention) {
    given({.context = {2, 3, 6}});
    refusedWith("m.npy", {5, 4}, {"m.npy (5, 4) bool does not broadcast to [batch, head, query, key] = (2, 2, 5, 3)"}, {"--mask", "m.npy"},
                "|b1");
    refusedWith("m.npy", {3, 5, 3}, {"m.npy (3, 5, 3) float32 does not broadcast"}, {"--bias", "m.npy"});
    refusedWith("m.npy", {3}, {"m.npy (3,) int32: expected one key length for each batch entry, shape (2,)"}, {"--kv-lengths", "m.npy"},
                "<i4");
    refusedWith("m.npy", {4}, {"m.npy (4,) float32: expected one sink for each query head, shape (2,)"}, {"--sinks", "m.npy"});
    writeNpy(file("o2.npy"), Array{{2}, {0, 5}}, {.descr = "<i4"});
    refused({"--cu-seqlens-q", "o2.npy", "--cu-seqlens-k", "o2.npy"}, {"x.npy (2, 5, 8) float32: has 2 batch entries, expected 1"});
}

TEST_F(LayerRefusal, outputs) {
    const auto to = [&](const std::string &target, const Arguments &more = {}) {
        Arguments arguments = {"layer", "--x", "x.npy", "--params", "p", "--heads", "2", "--device", "cpu", "--out", target};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return tool(arguments);
    };
    for (const std::string target : {"x.npy", "./x.npy", "p/wq.npy", "p/bo.npy"}) {
        const std::string before = readBytes(file(target));
        expectRefused(to(target), {"cannot write --out " + target + ": it is the input "});
        EXPECT_EQ(readBytes(file(target)), before);
    }
    refused({"--weights", "p/wk.npy"}, {"cannot write --weights p/wk.npy: it is the input p/wk.npy"});
    for (const std::string option : {"--weights", "--lse"})
        for (const std::string target : {"o.npy", "./o.npy"})
            expectRefused(to("o.npy", {option, target}),
                          {"cannot write " + option + " " + target + ": it is the same file as --out o.npy"});
    expectRefused(to("no/o.npy"), {"cannot write --out no/o.npy"});
    expectRefused(to("p"), {"cannot write --out p: it is a directory"});
    // What is there stays where anything is refused.
    writeBytes(file("old.npy"), "old");
    EXPECT_EQ(to("old.npy", {"--mask", "missing.npy"}).status, 2);
    EXPECT_EQ(readBytes(file("old.npy")), "old");
    EXPECT_EQ(to("old.npy").status, 0);
    EXPECT_EQ(readNpy(file("old.npy")).shape, (std::vector<size_t>{2, 5, 8}));
}

// Only what a command reads is its input.
TEST_F(LayerRefusal, parametersOfANormThatIsNotThere) {
    normed(NormPlace::post);
    expectRefused(
        tool({"layer", "--x", "x.npy", "--params", "p", "--heads", "2", "--device", "cpu", "--norm", "post", "--out", "p/gamma.npy"}),
        {"cannot write --out p/gamma.npy: it is the input p/gamma.npy"});
}

} // namespace
