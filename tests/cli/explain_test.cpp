// The output of `vkattn explain`, with and without a device. The planner's own tests show that the
// choices are right.
#include "harness.hpp"

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};

class ExplainTest : public CliTest {
  protected:
    [[nodiscard]] static Arguments shapes(const Arguments &more = {}) {
        Arguments arguments = {"explain", "--shape-q", "2,8,100,64", "--shape-k", "2,4,300,64"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    [[nodiscard]] Json explained(Arguments arguments) const {
        arguments.push_back("--json");
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    [[nodiscard]] bool anyDevice() const { return !Json::parse(tool({"info", "--json"}).out)["devices"].empty(); }
    void refused(const Arguments &more, const std::vector<std::string> &words) const {
        expectRefused(tool(shapes(more)), words);
        Arguments cpu = more;
        cpu.insert(cpu.end(), {"--device", "cpu", "--json"});
        expectRefused(tool(shapes(cpu)), words);
    }
};

TEST_F(ExplainTest, tellsThePlan) {
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    const Json json = explained(shapes({"--with", "lse,weights", "--causal", "bottom-right"}));
    EXPECT_TRUE(json["requestedDevice"].is_null());
    EXPECT_TRUE(json["fallbackReason"].is_null());
    EXPECT_EQ(json["kernel"], "staged"); // weights
    EXPECT_FALSE(json["why"].get<std::string>().empty());
    const Json &plan = json["plan"];
    ASSERT_TRUE(plan.is_object());
    EXPECT_TRUE(plan["form"].is_string());
    for (const char *key : {"rowsPerWorkgroup", "keysPerStep", "packedHeads", "splits", "dispatchCount", "pipelineCount", "chunkCount",
                            "sliceCount", "maxSlices", "persistentWorkspaceBytes", "workgroupInvocations", "workspaceBytes"})
        EXPECT_TRUE(plan[key].is_number_unsigned()) << key;
    EXPECT_TRUE(plan["tilesInTurn"].is_boolean());
    EXPECT_EQ(plan["groups"].size(), 3u);
    EXPECT_GT(plan["dispatchCount"], 0);
    EXPECT_EQ(plan["flopsFull"], 2.0 * 2 * 8 * 100 * 300 * 128);
    // 100 queries that end with the last of 300 keys: the first sees 201, the last all.
    EXPECT_DOUBLE_EQ(plan["flops"].get<double>(), plan["flopsFull"].get<double>() * (201 + 300) / 600);
    // The results at least.
    EXPECT_GE(plan["bytesWritten"], 4.0 * (2 * 8 * 100 * 64 + 2 * 8 * 100 * 300 + 2 * 8 * 100));
    EXPECT_GE(plan["bytesRead"], 4.0 * 2 * (8 * 100 + 2 * 4 * 300) * 64);
    for (const char *kernel : {"flash", "decode"}) EXPECT_FALSE(plan["rejected"][kernel].get<std::string>().empty());
    EXPECT_FALSE(plan["rejected"].contains("staged"));
    EXPECT_EQ(json["options"], Json({{"causal", "bottom-right"}}));
    EXPECT_EQ(json["shapes"]["v"], (std::vector<int>{2, 4, 300, 64})); // as the keys
    EXPECT_EQ(json["shapes"]["weights"], (std::vector<int>{2, 8, 100, 300}));
    EXPECT_EQ(json["dtypes"]["out"], "f32");

    const Outcome text = tool(shapes({"--with", "lse,weights"}));
    EXPECT_EQ(text.status, 0);
    for (const std::string word : {"device    ", "kernel    staged", "why       ", "not       flash: ", "not       decode: ", "workspace ",
                                   "work      ", "FLOP", "q         (2, 8, 100, 64) f32\n"})
        EXPECT_NE(text.out.find(word), std::string::npos) << "no '" << word << "' in: " << text.out;
    EXPECT_EQ(text.err, "");
}

TEST_F(ExplainTest, slicesAreExplained) {
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    const Json whole = explained(shapes({}))["plan"], plan = explained(shapes({"--slices", "3"}))["plan"];
    EXPECT_EQ(whole["sliceCount"], 1);
    EXPECT_EQ(whole["largestSlice"], 1);
    EXPECT_EQ(plan["sliceCount"], 3);
    EXPECT_GE(plan["maxSlices"], 3);
    EXPECT_GT(plan["largestSlice"].get<double>(), 0.3);
    EXPECT_LT(plan["largestSlice"].get<double>(), 0.7);
    EXPECT_LE(plan["persistentWorkspaceBytes"], plan["workspaceBytes"]);
    const Outcome text = tool(shapes({"--slices", "3"}));
    EXPECT_NE(text.out.find("slices    3 of at most "), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("kept between slices"), std::string::npos) << text.out;
}

TEST_F(ExplainTest, everyKernelIsTakenWhereItFits) {
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    const struct {
        std::string q, k, kernel;
        Arguments more;
    } cases[] = {
        {"1,8,100,64", "1,8,300,64", "flash", {}},    // many query rows share a key head
        {"1,8,1,64", "1,4,300,64", "decode", {}},     // two do
        {"1,8,100,600", "1,8,300,600", "staged", {}}, // no tile for such dims
        {"1,8,100,64", "1,8,300,64", "staged", {"--with", "weights"}},
        {"1,8,100,64", "1,8,0,64", "staged", {}}, // nothing to loop over
        {"1,8,100,64", "1,8,300,64", "decode", {"--kernel", "decode"}},
        {"1,8,1,64", "1,8,300,64", "flash", {"--kernel", "flash"}},
        {"1,8,1,64", "1,8,300,64", "staged", {"--kernel", "staged"}},
    };
    for (const auto &[q, k, kernel, more] : cases) {
        Arguments arguments = {"explain", "--shape-q", q, "--shape-k", k};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome text = tool(arguments);
        SCOPED_TRACE(text.out);
        const Json json = explained(arguments);
        ASSERT_TRUE(json["plan"].is_object());
        EXPECT_EQ(json["kernel"], kernel);
        EXPECT_EQ(json["tuning"], "built-in");
        EXPECT_NE(text.out.find("\nkernel    " + kernel), std::string::npos);
        EXPECT_NE(text.out.find("\ntuning    built-in\n"), std::string::npos);
        for (const std::string other : {"staged", "flash", "decode"}) {
            const bool taken = other == kernel;
            EXPECT_EQ(json["plan"]["rejected"].contains(other), !taken) << other;
            const size_t at = text.out.find("\nnot       " + other + ": ");
            EXPECT_EQ(at != std::string::npos, !taken) << other;
            if (!taken) {
                EXPECT_GT(json["plan"]["rejected"][other].get<std::string>().size(), 10u);
            }
        }
        EXPECT_EQ(json["plan"]["form"].get<std::string>().empty(), kernel == "staged");
        EXPECT_EQ(json["plan"]["packedHeads"] > 0, kernel != "staged");
    }
}

TEST_F(ExplainTest, valuesInKeysNeedNoShape) {
    const Json cpu =
        explained({"explain", "--shape-q", "1,128,1,576", "--shape-k", "1,1,4096,576", "--values-in-keys", "512", "--device", "cpu"});
    EXPECT_EQ(cpu["options"], Json({{"valuesInKeys", 512}}));
    EXPECT_FALSE(cpu["shapes"].contains("v"));
    EXPECT_EQ(cpu["shapes"]["out"], (std::vector<int>{1, 128, 1, 512}));
    expectRefused(tool({"explain", "--shape-q", "1,4,1,8", "--shape-k", "1,1,9,8", "--shape-v", "1,1,9,8", "--values-in-keys", "8"}),
                  {"--values-in-keys", "leave one of the two out"});
    expectRefused(tool({"explain", "--shape-q", "1,4,1,8", "--shape-k", "1,1,9,8", "--values-in-keys", "9"}),
                  {"out has 9 value dims", "expected at most the 8 dims of k", "--values-in-keys 9"});
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    const Json json = explained({"explain", "--shape-q", "1,128,1,576", "--shape-k", "1,1,4096,576", "--values-in-keys", "512"});
    // Without subgroup shuffles tiles of a software device end below.
    if (json["kernel"] == "staged") GTEST_SKIP() << "no tile for head dim 576 here";
    EXPECT_EQ(json["plan"]["packedHeads"], 128);
}

TEST_F(ExplainTest, decodePacksTheHeadsOfAGroup) {
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    const Arguments arguments = {"explain", "--shape-q", "1,12,1,64", "--shape-k", "1,4,5000,64"};
    const Json plan = explained(arguments)["plan"];
    EXPECT_EQ(plan["packedHeads"], 3);
    EXPECT_GT(plan["splits"], 1);
    EXPECT_GT(plan["workspaceBytes"], 0);
    const Outcome text = tool(arguments);
    EXPECT_NE(text.out.find("the 3 query heads of a key head packed as rows"), std::string::npos) << text.out;
}

TEST_F(ExplainTest, aKernelThatCannotSaysWhy) {
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    for (const std::string kernel : {"flash", "decode"}) {
        const Json json = explained(shapes({"--kernel", kernel, "--with", "weights"}));
        EXPECT_TRUE(json["plan"].is_null());
        EXPECT_TRUE(json["tuning"].is_null());
        EXPECT_EQ(json["kernel"], "cpu");
        const std::string reason = "the " + kernel + " kernel never has the weights in memory; only the staged kernel writes them";
        EXPECT_NE(json["fallbackReason"].get<std::string>().find(reason), std::string::npos) << json.dump();
        const Outcome outcome = tool(shapes({"--kernel", kernel, "--with", "weights", "--no-fallback"}));
        EXPECT_EQ(outcome.status, 3);
        EXPECT_EQ(outcome.out, "");
        for (const std::string &word : {reason, std::string("leave out --no-fallback")})
            EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    }
}

TEST_F(ExplainTest, hiddenPairsAreNoWork) {
    if (!anyDevice()) GTEST_SKIP() << "no Vulkan device here";
    const auto share = [&](const Arguments &more) {
        Arguments arguments = {"explain", "--shape-q", "1,2,1000,64", "--shape-k", "1,2,1000,64"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Json plan = explained(arguments)["plan"];
        EXPECT_EQ(plan["flopsFull"], 4.0 * 2 * 1000 * 1000 * 64);
        return plan["flops"].get<double>() / plan["flopsFull"].get<double>();
    };
    EXPECT_DOUBLE_EQ(share({}), 1);
    EXPECT_NEAR(share({"--causal", "bottom-right"}), 0.5005, 1e-9);
    EXPECT_NEAR(share({"--causal", "top-left", "--kernel", "staged"}), 0.5005, 1e-9);
    EXPECT_NEAR(share({"--window", "9,0"}), (10 * 1000 - 45) / 1e6, 1e-9);
    const Outcome text = tool({"explain", "--shape-q", "1000,64", "--shape-k", "1000,64", "--causal", "bottom-right"});
    EXPECT_NE(text.out.find("work      128 MFLOP of the 256 MFLOP of all pairs"), std::string::npos) << text.out;
}

TEST_F(ExplainTest, theCpuSaysWhyItIsTheCpu) {
    Json json = explained(shapes({"--device", "cpu", "--no-fallback"}));
    EXPECT_EQ(json["requestedDevice"], "cpu");
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["kernel"], "cpu");
    EXPECT_EQ(json["why"], "asked for with --device cpu");
    EXPECT_TRUE(json["fallbackReason"].is_null());
    EXPECT_TRUE(json["plan"].is_null());
    EXPECT_GT(json["cpuPlan"]["keysPerTile"], 0);
    EXPECT_GT(json["cpuPlan"]["threads"], 0);

    Outcome outcome = tool(shapes({"--json"}), noVulkan);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    json = Json::parse(outcome.out);
    EXPECT_EQ(json["kernel"], "cpu");
    EXPECT_FALSE(json["fallbackReason"].get<std::string>().empty());
    EXPECT_EQ(json["why"], json["fallbackReason"]);
    outcome = tool(shapes(), noVulkan);
    EXPECT_NE(outcome.out.find("kernel    cpu\nwhy       " + json["why"].get<std::string>() + "\n"), std::string::npos) << outcome.out;
    EXPECT_EQ(tool(shapes({"--no-fallback"}), noVulkan).status, 3);
}

TEST_F(ExplainTest, everyOptionMayBeAssumed) {
    const Json json = explained(shapes({"--device", "cpu", "--dtype", "bf16", "--shape-v", "2,4,300,32", "--with",
                                        "mask,bias,alibi,sinks,lengths,documents,lse,weights,scores", "--align", "top-left",
                                        "--deterministic", "--out-dtype", "f16", "--softcap", "2"}));
    EXPECT_EQ(json["options"], Json({{"outDtype", "f16"},
                                     {"align", "top-left"},
                                     {"softcap", 2.0},
                                     {"mask", true},
                                     {"bias", true},
                                     {"alibi", true},
                                     {"sinks", true},
                                     {"kvLengths", true},
                                     {"documents", true},
                                     {"scores", "raw"},
                                     {"deterministic", true}}));
    EXPECT_EQ(json["shapes"]["v"], (std::vector<int>{2, 4, 300, 32}));
    EXPECT_EQ(json["shapes"]["mask"], (std::vector<int>{1, 1, 100, 300}));
    EXPECT_EQ(json["shapes"]["lse"], (std::vector<int>{2, 8, 100, 1}));
    for (const char *key : {"q", "k", "v", "bias"}) EXPECT_EQ(json["dtypes"][key], "bf16") << key;
    EXPECT_EQ(json["dtypes"]["out"], "f16");
    EXPECT_EQ(json["dtypes"]["mask"], "bool8");
}

TEST_F(ExplainTest, raggedBatchesMayBeAssumed) {
    const Arguments base = {"explain", "--shape-q", "8,1000,64", "--shape-k", "1000,64", "--device", "cpu"};
    const auto with = [&](const Arguments &more) {
        Arguments arguments = base;
        arguments.insert(arguments.end(), more.begin(), more.end());
        return explained(arguments);
    };
    Json json = with({"--ragged", "7,200,300", "--with", "bitmask,weights"});
    EXPECT_EQ(json["options"], Json({{"bitmask", true}, {"sequences", 7}, {"maxSeqQ", 200}, {"maxSeqK", 300}}));
    EXPECT_EQ(json["shapes"]["bitmask"], (std::vector<int>{1, 1, 200, 10}));
    EXPECT_EQ(json["shapes"]["weights"], (std::vector<int>{7, 8, 200, 300}));
    json = with({"--ragged", "7", "--with", "documents"});
    EXPECT_EQ(json["options"], Json({{"sequences", 7}, {"documents", true}}));
}

TEST_F(ExplainTest, aRunIsExplainedByChangingTheWord) {
    writeNpy(file("q.npy"), Array{{2, 12, 8}, std::vector<double>(192)}, {.descr = "<f2", .fortran = true});
    writeNpy(file("k.npy"), Array{{2, 20, 8}, std::vector<double>(320)});
    writeNpy(file("v.npy"), Array{{2, 20, 8}, std::vector<double>(320)});
    writeNpy(file("c.npy"), Array{{3}, {0, 5, 12}}, {.descr = "<i4"});
    writeNpy(file("s.npy"), Array{{2}, {1, 2}});
    Arguments arguments = onCpu({"--cu-seqlens-q", "c.npy", "--cu-seqlens-k", "c.npy", "--sinks", "s.npy", "--round-to", "bf16", "--lse",
                                 "lse.npy", "--verify", "--repeat", "3"});
    arguments[0] = "explain";
    const Json json = explained(arguments);
    EXPECT_EQ(json["options"], Json({{"roundTo", "bf16"}, {"sinks", true}, {"sequences", 2}, {"maxSeqQ", 7}, {"maxSeqK", 7}}));
    EXPECT_EQ(json["shapes"]["q"], (std::vector<int>{1, 2, 12, 8}));
    EXPECT_EQ(json["dtypes"]["q"], "bf16");
    EXPECT_EQ(json["dtypes"]["out"], "f16");
    EXPECT_TRUE(json["shapes"].contains("lse"));
    EXPECT_FALSE(exists("o.npy"));
    EXPECT_FALSE(exists("lse.npy"));
    // Files and words together, and without --out.
    EXPECT_EQ(explained({"explain", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--with", "sinks", "--device", "cpu"})["options"],
              Json({{"sinks", true}}));
}

TEST_F(ExplainTest, badUsage) {
    writeSmallProblem();
    writeNpy(file("m.npy"), Array{{1, 1}, {1}}, {.descr = "|b1"});
    for (const Arguments &arguments : {Arguments{"explain"}, Arguments{"explain", "--shape-q", "5,8"}, Arguments{"explain", "--q", "q.npy"},
                                       Arguments{"explain", "--q", "q.npy", "--k", "k.npy"}})
        expectRefused(tool(arguments), {"explain needs arrays or their shapes", "--shape-q"});
    refused({"--shape-q", "2,1,64"}, {"--shape-q"}); // twice
    refused({"--q", "q.npy"}, {"--shape-q, --shape-k and --shape-v stand in place of the files"});
    for (const std::string value : {"1", "1,2,3,4,5", "a,b", "1,-2", "1, 2", "4294967296,2", "1,2,", ",1"})
        expectRefused(tool({"explain", "--shape-q", value, "--shape-k", "5,8"}),
                      {"--shape-q takes 2 to 4 whole numbers", "'" + value + "'"});
    refused({"--dtype", "f64"}, {"--dtype takes f32, f16 or bf16, not 'f64'"});
    expectRefused(tool({"explain", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--dtype", "f16"}),
                  {"--dtype is the type of --shape-q"});
    refused({"--with", "masks"}, {"--with takes a list like mask,sinks of mask, bitmask, ", "'masks'"});
    refused({"--with", "mask,"}, {"--with takes a list", "''"});
    refused({"--with", "mask", "--mask", "m.npy"}, {"--with mask stands in place of a file, and --mask gives one"});
    refused({"--with", "mask,bitmask"}, {"--with mask and --with bitmask are both given", "combine them"});
    refused({"--with", "lengths", "--ragged", "3"}, {"--with lengths and --ragged are both given", "leave --with lengths out"});
    for (const std::string value : {"0", "x", "3,4", "3,4,5,6", "-1"})
        refused({"--ragged", value}, {"--ragged takes SEQUENCES or SEQUENCES,QUERIES,KEYS", "'" + value + "'"});
    refused({"--ragged", "3", "--cu-seqlens-q", "c.npy", "--cu-seqlens-k", "c.npy"}, {"--ragged stands in place of files"});
    refused({"--ragged", "3"}, {"--shape-q 2,8,100,64", "batch"});
    refused({"--align", "top-left"}, {"--align", "--alibi"});
    refused({"--maks", "m.npy"}, {"--maks", "vkattn explain --help"});
}

TEST_F(ExplainTest, badShapes) {
    const auto of = [&](const std::string &q, const std::string &k) {
        return tool({"explain", "--shape-q", q, "--shape-k", k, "--with", "weights", "--device", "cpu"});
    };
    expectRefused(of("5,8", "7,9"), {"shapes disagree: --shape-q 5,8 and --shape-k 7,9: they need the same dim"});
    expectRefused(of("6,5,8", "4,7,8"), {"4 does not divide 6"});
    expectRefused(of("0,5,8", "1,7,8"), {"--shape-q 0,5,8: has zero heads"});
    expectRefused(of("5,2049", "7,2049"), {"at most 2048"});
    expectRefused(of("4294967295,4294967295,4294967295,8", "7,8"), {"--shape-q 4294967295,", "too large"});
    expectRefused(of("65536,65536,1,1", "65536,1,1073741824,1"), {"--weights", "(65536, 65536, 1, 1073741824) is too large"});
    expectRefused(of("2000000000,8", "7,8"), {"2000000000 tokens", "--shape-q 2000000000,8"});
    const Json json = explained({"explain", "--shape-q", "0,8", "--shape-k", "0,8"});
    EXPECT_EQ(json["shapes"]["q"], (std::vector<int>{1, 1, 0, 8}));
}

TEST_F(ExplainTest, helpNamesEveryOption) {
    const Outcome outcome = tool({"explain", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option : {"--shape-q", "--shape-k", "--shape-v", "--dtype", "--with", "--ragged", "--q", "--sinks", "--json"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
}

} // namespace
