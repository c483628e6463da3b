// `vkattn explain linear`: what the planner says of linear attention, from files or from shapes alone.
#include "linear_fixture.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

class ExplainLinear : public LinearTest {
  protected:
    [[nodiscard]] Json explained(Arguments arguments) const {
        arguments.insert(arguments.begin(), {"explain", "linear"});
        arguments.emplace_back("--json");
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    void refused(Arguments arguments, const std::vector<std::string> &words) const {
        arguments.insert(arguments.begin(), {"explain", "linear"});
        expectRefused(tool(arguments), words);
    }
};

// Every option of a call is taken, and nothing is written.
TEST_F(ExplainLinear, takesTheWordsOfACall) {
    rule = "gated-delta";
    givenAll(2, 70, 16, 8);
    Arguments call = command({"--state-out", "s2.npy", "--verify", "--repeat", "3"});
    call.insert(call.begin(), "explain");
    call.emplace_back("--json");
    const Outcome outcome = tool(call);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    ASSERT_EQ(json["passes"].size(), 1u);
    EXPECT_EQ(json["passes"][0]["name"], "forward");
    EXPECT_EQ(json["passes"][0]["kernel"], "cpu");
    EXPECT_EQ(json["options"]["rule"], "gated-delta");
    for (const char *const each : {"o.npy", "s2.npy"}) EXPECT_FALSE(std::filesystem::exists(file(each))) << each;
}

// The same from shapes: the arrays that a rule asks for take part by themselves.
TEST_F(ExplainLinear, shapesStandForFiles) {
    const Arguments cpu = {"--device", "cpu"};
    rule = "gated-delta";
    givenAll(2, 70, 16, 8);
    Arguments ofFiles = command();
    ofFiles.erase(ofFiles.begin());
    const Json files = explained(ofFiles);
    const Json shapes = explained({"--rule", "gated-delta", "--shape-q", "2,70,16", "--shape-v", "2,70,8", "--device", "cpu"});
    for (const char *const key : {"flops", "bytes", "formula", "result"})
        EXPECT_EQ(shapes["passes"][0][key], files["passes"][0][key]) << key;

    const auto bytes = [&](Arguments more) {
        more.insert(more.end(), {"--rule", "gated", "--shape-q", "1,2,64,16", "--device", "cpu"});
        return explained(more)["passes"][0]["bytes"].get<double>();
    };
    // Of 64 tokens: 15 more numbers a token and head, and a state of 16 x 16 a head, of 4 bytes each.
    const double least = bytes({});
    EXPECT_EQ(bytes({"--with", "key-decay"}) - least, 2 * 64 * 15 * 4);
    EXPECT_EQ(bytes({"--with", "state-in"}) - least, 2 * 16 * 16 * 4);
    EXPECT_EQ(bytes({"--with", "state-in,state-out"}) - least, 2 * 2 * 16 * 16 * 4);
}

TEST_F(ExplainLinear, gradientsAreAPassOfTheirOwn) {
    for (const char *const each : {"linear", "gated", "delta", "gated-delta"}) {
        const Json json = explained({"--rule", each, "--shape-q", "4,100,16", "--with", "gradients,state-in", "--device", "cpu"});
        ASSERT_EQ(json["passes"].size(), 2u) << each;
        EXPECT_EQ(json["passes"][1]["name"], "backward");
        EXPECT_GT(json["passes"][1]["flops"], json["passes"][0]["flops"]) << each;
    }
}

TEST_F(ExplainLinear, tellsThePlanOfADevice) {
    if (!hasTestedDevice()) GTEST_SKIP() << "no device";
    const auto plan = [&](const Arguments &more) {
        Arguments all = {"--rule", "gated", "--shape-q", "1,2,4096,16", "--device", "0", "--no-fallback"};
        all.insert(all.end(), more.begin(), more.end());
        return explained(all)["passes"][0];
    };
    const Json chunked = plan({"--form", "chunked"}), recurrent = plan({"--form", "recurrent"});
    EXPECT_EQ(chunked["kernel"], "linear");
    EXPECT_GT(chunked["chunkTokens"], 1);
    EXPECT_EQ(recurrent["chunkTokens"], 1);
    EXPECT_NE(chunked["form"], recurrent["form"]);
    EXPECT_NE(chunked["why"], recurrent["why"]);
    for (const char *const key : {"dispatches", "pipelines", "workspaceBytes", "maxSlices", "columnsPerWorkgroup"})
        EXPECT_GT(chunked[key], 0) << key;

    const Outcome text = tool({"explain", "linear", "--rule", "softmax-features", "--features", "favor", "--random-features", "32",
                               "--causal", "--shape-q", "2,100,16", "--device", "0", "--no-fallback"});
    ASSERT_EQ(text.status, 0) << text.err;
    for (const char *const part : {"features favor", "forward   linear, ", "tokens at a time", "of workspace"})
        EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
}

// Gradients of delta rules with so many key dims no device takes: the CPU does.
TEST_F(ExplainLinear, saysWhyTheCpuComputes) {
    if (!hasTestedDevice()) GTEST_SKIP() << "no device";
    Arguments wide = {"--rule", "gated-delta", "--shape-q", "1,2,64,512", "--with", "gradients", "--device", "0"};
    const Json json = explained(wide);
    ASSERT_TRUE(json["fallbackReason"].is_string()) << json;
    EXPECT_NE(json["fallbackReason"].get<std::string>().find("key dims"), std::string::npos) << json["fallbackReason"];
    EXPECT_EQ(json["passes"][1]["kernel"], "cpu");
    EXPECT_TRUE(json["passes"][1]["flops"].is_null()) << json;
    wide.insert(wide.begin(), {"explain", "linear"});
    wide.emplace_back("--no-fallback");
    EXPECT_EQ(tool(wide).status, 3);
}

TEST_F(ExplainLinear, refuses) {
    refused({"--rule", "linear"}, {"--q is missing", "--shape-q B,H,N,D"});
    refused({"--rule", "linear", "--shape-k", "4,4"}, {"--q is missing"});
    refused({"--rule", "linear", "--shape-q", "4"}, {"--shape-q", "2 to 4 whole numbers"});
    refused({"--rule", "linear", "--shape-q", "4,4", "--with", "keydecay"}, {"--with", "key-decay, state-in"});
    refused({"--rule", "linear", "--shape-q", "4,4", "--with", "key-decay"}, {"key-decay belongs to --rule gated"});
    refused({"--rule", "linear", "--shape-q", "4,4", "--shape-k", "4,5"}, {"--shape-q 4,4", "--shape-k 4,5"});
    refused({"--rule", "linear", "--shape-q", "4,4", "--random-features", "8"}, {"--random-features belongs to --rule softmax-features"});
    refused({"--rule", "softmax-features", "--features", "favor", "--shape-q", "4,4"}, {"needs --random-features"});
    refused({"--rule", "softmax-features", "--features", "favor", "--shape-q", "4,4", "--random-features", "0"}, {"--random-features"});
    rule = "linear";
    givenAll(2, 4, 4, 4);
    refused({"--rule", "linear", "--shape-q", "4,4", "--q", "q.npy"}, {"--shape-q stands in place of files, and --q gives one"});
    refused({"--rule", "linear", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--with", "state-in"}, {"--with goes with --shape-q"});
    expectRefused(tool({"explain", "--q", "q.npy", "linear", "--rule", "linear", "--shape-q", "2,4"}), {"options before `linear`"});
}

} // namespace
