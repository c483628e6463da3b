// `vkattn explain --draw-mask`: what it counts of the visible pairs, and its picture as a file. The oracle's
// own tests show that the rules are right.
#include "cli/harness.hpp"

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

class ExplainMaskTest : public CliTest {
  protected:
    [[nodiscard]] static Arguments shapes(const std::string &q, const std::string &k, const Arguments &more = {}) {
        Arguments arguments = {"explain", "--shape-q", q, "--shape-k", k, "--device", "cpu"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    [[nodiscard]] static Arguments tokens(size_t queries, size_t keys, const Arguments &more = {}) {
        return shapes(std::to_string(queries) + ",8", std::to_string(keys) + ",8", more);
    }
    [[nodiscard]] Json drawn(Arguments arguments, const std::string &picture = "m.png") const {
        arguments.insert(arguments.end(), {"--draw-mask", picture, "--json"});
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        if (outcome.status != 0) return {};
        Json mask = Json::parse(outcome.out)["mask"];
        EXPECT_EQ(mask["file"], picture);
        expectPicture(picture, mask["pixels"][0], mask["pixels"][1]);
        return mask;
    }
    // The signature, and the header's chunk behind it.
    void expectPicture(const std::string &name, uint32_t width, uint32_t height) const {
        const std::string bytes = readBytes(file(name));
        ASSERT_GT(bytes.size(), 24u);
        EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
        const auto number = [&](size_t at) {
            uint32_t value = 0;
            for (size_t n = at; n < at + 4; ++n) value = value << 8 | static_cast<unsigned char>(bytes[n]);
            return value;
        };
        EXPECT_EQ(number(16), width);
        EXPECT_EQ(number(20), height);
    }
    void expectText(const Arguments &arguments, const std::string &words) const {
        Arguments drawing = arguments;
        drawing.insert(drawing.end(), {"--draw-mask", "m.png"});
        const Outcome outcome = tool(drawing);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_NE(outcome.out.find("\nmask      m.png: " + words), std::string::npos) << "no '" << words << "' in: " << outcome.out;
    }
    void refused(Arguments arguments, const std::vector<std::string> &words) const {
        arguments.insert(arguments.end(), {"--draw-mask", "m.png"});
        expectRefused(tool(arguments), words);
        EXPECT_FALSE(exists("m.png"));
    }
};

TEST_F(ExplainMaskTest, tellsWhatRulesShow) {
    expectText(tokens(64, 64), "64 x 64 pairs of head 0, 4096 visible (100 %), 0 empty rows, 100 % of 64 x 32 blocks visited\n"
                               "  picture 512 x 512 pixels, 8 x 8 for each pair: dark where visible");
    expectText(tokens(64, 64, {"--causal", "bottom-right"}), "64 x 64 pairs of head 0, 2080 visible (50.8 %), 0 empty rows, ");
    expectText(tokens(64, 64, {"--window", "4,4"}), "64 x 64 pairs of head 0, 556 visible (13.6 %), 0 empty rows, ");
    expectText(tokens(64, 64, {"--window", "4,4", "--dilation", "2"}), "64 x 64 pairs of head 0, 536 visible (13.1 %), 0 empty rows, ");
    expectText(tokens(64, 64, {"--bigbird", "1,3,0"}), "64 x 64 pairs of head 0, 622 visible (15.2 %), 0 empty rows, ");
    // Each of 7 x 9 tokens sees 5 x 3; where borders cut that, axis by axis 29 and 25 in all.
    expectText(tokens(63, 63, {"--neighbourhood", "7x9:5x3"}), "63 x 63 pairs of head 0, 945 visible (23.8 %), 0 empty rows, ");
    expectText(tokens(63, 63, {"--neighbourhood", "7x9:5x3", "--border", "cut"}), "63 x 63 pairs of head 0, 725 visible (18.3 %), ");
    expectText(tokens(63, 63, {"--windows", "7x9:7x3"}), "63 x 63 pairs of head 0, 1323 visible (33.3 %), ");
    EXPECT_EQ(tool(tokens(64, 64)).out.find("mask "), std::string::npos);
}

// 10 queries that end with the last of 7 keys.
TEST_F(ExplainMaskTest, rowsThatSeeNothingAreEmpty) {
    expectText(tokens(10, 7, {"--causal", "bottom-right"}), "10 x 7 pairs of head 0, 28 visible (40 %), 3 empty rows, ");
    expectText(tokens(8, 7, {"--causal", "bottom-right"}), "8 x 7 pairs of head 0, 28 visible (50 %), 1 empty row, ");
    EXPECT_EQ(drawn(tokens(10, 7, {"--causal", "top-left"}))["emptyRows"], 0);
}

TEST_F(ExplainMaskTest, blocksAreVisitedWhereAPairIsVisible) {
    // Rows of blocks see 2, 4, 6 and 8 of 8 blocks.
    const Json causal = drawn(tokens(256, 256, {"--causal", "bottom-right"}));
    EXPECT_EQ(causal["blockSize"], (std::vector<int>{64, 32}));
    EXPECT_EQ(causal["blocks"], 32);
    EXPECT_EQ(causal["visitedBlocks"], 20);
    EXPECT_DOUBLE_EQ(causal["visitedShare"].get<double>(), 0.625);
    EXPECT_DOUBLE_EQ(causal["visibleShare"].get<double>(), 257.0 / 512);
    // The last blocks are short.
    const Json own = drawn(tokens(65, 65, {"--window", "0,0"}));
    EXPECT_EQ(own["visiblePairs"], 65);
    EXPECT_EQ(own["blocks"], 6);
    EXPECT_EQ(own["visitedBlocks"], 3);
}

TEST_F(ExplainMaskTest, picturesHaveASizeToLookAt) {
    const auto pixels = [&](size_t queries, size_t keys) { return drawn(tokens(queries, keys))["pixels"].get<std::vector<int>>(); };
    EXPECT_EQ(pixels(1, 1), (std::vector<int>{512, 512}));
    EXPECT_EQ(pixels(100, 511), (std::vector<int>{1022, 600}));
    EXPECT_EQ(pixels(1024, 513), (std::vector<int>{513, 1024}));
    EXPECT_EQ(pixels(1, 5000), (std::vector<int>{1000, 512}));
    expectText(tokens(1025, 3000), "1025 x 3000 pairs of head 0, 3075000 visible (100 %), 0 empty rows, 100 % of 64 x 32 blocks visited\n"
                                   "  picture 1000 x 513 pixels, 1 x 1 for each 3 keys of 2 queries: the darker, the more");
}

// A picture shows the visible pairs, however they are said.
TEST_F(ExplainMaskTest, masksOfFilesAreDrawn) {
    Array lower{{64, 64}, std::vector<double>(4096)};
    for (size_t n = 0; n < lower.values.size(); ++n) lower.values[n] = n % 64 <= n / 64;
    writeNpy(file("lower.npy"), lower, {.descr = "|b1"});
    EXPECT_EQ(drawn(tokens(64, 64, {"--mask", "lower.npy"}), "a.png")["visiblePairs"], 2080);
    EXPECT_EQ(drawn(tokens(64, 64, {"--causal", "top-left"}), "b.png")["visiblePairs"], 2080);
    EXPECT_EQ(drawn(tokens(64, 64, {"--window", "4,4"}), "c.png")["visiblePairs"], 556);
    EXPECT_EQ(readBytes(file("a.png")), readBytes(file("b.png")));
    EXPECT_NE(readBytes(file("a.png")), readBytes(file("c.png")));

    Array first{{64}, std::vector<double>(64)};
    first.values[0] = 1;
    writeNpy(file("first.npy"), first, {.descr = "|b1"});
    EXPECT_EQ(drawn(tokens(64, 64, {"--window", "4,4", "--global-tokens", "first.npy"}))["visiblePairs"], 674);

    writeSmallProblem(5, 7);
    writeNpy(file("one.npy"), Array{{1, 7}, {0, 0, 1, 0, 0, 0, 1}}, {.descr = "|b1"});
    const Json files = drawn({"explain", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--mask", "one.npy", "--device", "cpu"});
    EXPECT_EQ(files["queries"], 5);
    EXPECT_EQ(files["keys"], 7);
    EXPECT_EQ(files["visiblePairs"], 10);
}

TEST_F(ExplainMaskTest, oneHeadOfABatchIsDrawn) {
    writeNpy(file("prefix.npy"), Array{{2}, {0, 3}}, {.descr = "<i4"});
    writeNpy(file("blocks.npy"), Array{{2, 2, 2}, {1, 1, 1, 1, 1, 0, 0, 0}}, {.descr = "|b1"});
    const auto of = [&](const std::string &b, const std::string &h, const Arguments &rules) {
        Arguments arguments = shapes("2,2,4,8", "2,1,4,8", rules);
        arguments.insert(arguments.end(), {"--draw-batch", b, "--draw-head", h});
        return drawn(arguments);
    };
    const Arguments prefix = {"--causal", "bottom-right", "--prefix-lengths", "prefix.npy"};
    EXPECT_EQ(of("0", "0", prefix)["visiblePairs"], 10);
    EXPECT_EQ(of("1", "0", prefix)["visiblePairs"], 13);
    const Arguments blocks = {"--block-mask", "blocks.npy", "--block-size", "2,2"};
    EXPECT_EQ(of("0", "0", blocks)["visiblePairs"], 16);
    const Json last = of("1", "1", blocks);
    EXPECT_EQ(last["visiblePairs"], 4);
    EXPECT_EQ(last["emptyRows"], 2);
    EXPECT_EQ(last["head"], 1);
    EXPECT_EQ(last["batch"], 1);
    writeNpy(file("lengths.npy"), Array{{2}, {4, 1}}, {.descr = "<i4"});
    EXPECT_EQ(of("1", "1", {"--kv-lengths", "lengths.npy"})["visiblePairs"], 4);
    expectText(shapes("2,2,4,8", "2,1,4,8", {"--draw-batch", "1", "--draw-head", "1"}), "4 x 4 pairs of head 1 of batch entry 1, ");

    // A sequence has its own queries and keys.
    writeNpy(file("starts.npy"), Array{{4}, {0, 5, 5, 12}}, {.descr = "<i4"});
    const Arguments ragged = {"--cu-seqlens-q", "starts.npy", "--cu-seqlens-k", "starts.npy", "--causal", "bottom-right"};
    Arguments arguments = tokens(12, 12, ragged);
    arguments.insert(arguments.end(), {"--draw-batch", "2"});
    const Json sequence = drawn(arguments);
    EXPECT_EQ(sequence["queries"], 7);
    EXPECT_EQ(sequence["keys"], 7);
    EXPECT_EQ(sequence["visiblePairs"], 28);
    expectText(arguments, "7 x 7 pairs of head 0 of sequence 2, 28 visible");
    std::filesystem::remove(file("m.png"));
    arguments.back() = "1";
    refused(arguments,
            {"head 0 of sequence 1 has 0 queries and 0 keys", "expected at least one of each", "another sequence with --draw-batch"});
    arguments.back() = "3";
    refused(arguments, {"--draw-batch 3: the problem has 3 sequences, expected a number from 0 to 2"});
}

// Rows are looked at up to a number of pairs; tensors need no memory, whatever their size.
TEST_F(ExplainMaskTest, largeProblemsAreSampled) {
    const Json mask = drawn(shapes("1000,64,16386,512", "1000,64,16384,512", {"--causal", "top-left"}));
    uint64_t rows = 0, pairs = 0;
    for (uint64_t row = 0; row < 16386; row += 3) rows++, pairs += row + 1;
    EXPECT_EQ(mask["step"], 3);
    EXPECT_EQ(mask["rows"], rows);
    EXPECT_EQ(mask["visiblePairs"], pairs);
    EXPECT_NEAR(mask["visibleShare"].get<double>(), 0.5, 1e-3);
    expectText(tokens(3, 90000000), "3 x 90000000 pairs of head 0, of every 3 rows the first was looked at, 1 in all: 90000000 visible "
                                    "(100 %), 0 empty rows, at least 100 % of 64 x 32 blocks visited\n");
}

TEST_F(ExplainMaskTest, refusals) {
    const Arguments eight = shapes("2,8,10,8", "2,4,10,8");
    const auto with = [&](const Arguments &more) {
        Arguments arguments = eight;
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    };
    refused(with({"--draw-head", "8"}), {"--draw-head 8: the problem has 8 query heads, expected a number from 0 to 7"});
    refused(with({"--draw-batch", "2"}), {"--draw-batch 2: the problem has 2 batch entries, expected a number from 0 to 1"});
    refused(tokens(5, 5, {"--draw-head", "1"}), {"the problem has 1 query head, expected a number from 0 to 0"});
    for (const std::string value : {"x", "-1", "1.5", "4294967296"})
        refused(with({"--draw-head", value}), {"--draw-head takes a whole number, 0 for the first one", "'" + value + "'"});
    for (const std::string option : {"--draw-head", "--draw-batch"})
        expectRefused(tool(with({option, "0"})), {option + " says what --draw-mask draws", "add --draw-mask"});
    refused(tokens(0, 5), {"--draw-mask m.png: head 0 has 0 queries and 5 keys", "expected at least one of each", "leave --draw-mask out"});
    refused(tokens(5, 0), {"has 5 queries and 0 keys"});
    for (const auto &[word, option] : {std::pair{"mask", "--mask"},
                                       {"bitmask", "--bitmask"},
                                       {"bias", "--bias"},
                                       {"lengths", "--kv-lengths"},
                                       {"documents", "--doc-ids-q"}})
        refused(with({"--with", word}), {std::string("--with ") + word + " does not say which it hides",
                                         std::string("give ") + option + " with a file, or leave " + word + " out"});
    refused(shapes("10,8", "10,8", {"--ragged", "3"}), {"--draw-mask draws one sequence", "--cu-seqlens-q"});
    EXPECT_EQ(drawn(with({"--with", "alibi,sinks,lse,weights"}))["visiblePairs"], 100);

    expectRefused(tool(with({"--draw-mask"})), {"--draw-mask"});
    expectRefused(tool(with({"--draw-mask", "no/m.png"})), {"cannot write --draw-mask no/m.png: No such file or directory"});
    std::filesystem::create_directory(file("folder"));
    expectRefused(tool(with({"--draw-mask", "folder"})), {"cannot write --draw-mask folder: it is a directory"});
    writeNpy(file("mask.npy"), Array{{10, 10}, std::vector<double>(100)}, {.descr = "|b1"});
    const std::string before = readBytes(file("mask.npy"));
    expectRefused(tool(with({"--mask", "mask.npy", "--draw-mask", "mask.npy"})), {"it is the input mask.npy"});
    EXPECT_EQ(readBytes(file("mask.npy")), before);
}

} // namespace
