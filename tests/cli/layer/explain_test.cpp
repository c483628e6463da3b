// `vkattn explain layer`: the table of shapes of a layer, from files or from shapes alone.
#include "layer_fixture.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

class ExplainLayer : public LayerTest {
  protected:
    [[nodiscard]] Json explained(Arguments arguments) const {
        arguments.insert(arguments.begin(), {"explain", "layer"});
        if (std::find(arguments.begin(), arguments.end(), "--device") == arguments.end())
            arguments.insert(arguments.end(), {"--device", "cpu"});
        arguments.emplace_back("--json");
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    void refused(Arguments arguments, const std::vector<std::string> &words) const {
        arguments.insert(arguments.begin(), {"explain", "layer"});
        expectRefused(tool(arguments), words);
    }
    [[nodiscard]] static std::string namesOf(const Json &json) {
        std::string names;
        for (const Json &step : json["steps"]) names += (names.empty() ? "" : " | ") + step["name"].get<std::string>();
        return names;
    }
};

// The layer that the paper counts: 8 n D^2 + 4 n^2 D operations, 4 D^2 + 4 D parameters, and those of
// the norm.
TEST_F(ExplainLayer, countsWhatThePaperCounts) {
    const Json json = explained({"--shape-x", "1,1024,512", "--heads", "8", "--norm", "post", "--residual", "--biases"});
    EXPECT_EQ(namesOf(json), "q | k | v | attention | out | norm");
    EXPECT_EQ(json["parameters"], 1050624 + 1024);
    EXPECT_EQ(json["shapes"], (Json{{"x", {1, 1, 1024, 512}}, {"out", {1, 1, 1024, 512}}}));
    EXPECT_EQ(json["options"]["norm"], "post");
    double sum = 0, products = 0;
    for (const Json &step : json["steps"]) {
        sum += step["flops"].get<double>();
        if (step["operation"] != "norm") products += step["flops"].get<double>();
        EXPECT_EQ(step["kernel"], "cpu");
    }
    EXPECT_DOUBLE_EQ(json["flops"].get<double>(), sum);
    EXPECT_NEAR(products / (8.0 * 1024 * 512 * 512 + 4.0 * 1024 * 1024 * 512), 1, 1e-3); // and the biases
    EXPECT_EQ(json["steps"][0]["formula"], "[1, 1024, 512] x [512, 512]^T");
    EXPECT_EQ(json["steps"][3]["formula"], "[1, 8, 1024, 64], keys [1, 8, 1024, 64]");
    EXPECT_EQ(explained({"--shape-x", "1024,512", "--heads", "8"})["parameters"], 4 * 512 * 512);
}

TEST_F(ExplainLayer, shapesMayDiffer) {
    const Json json = explained({"--shape-x", "2,4", "--heads", "2", "--kv-heads", "1", "--head-dim", "6", "--value-dim", "3",
                                 "--shape-context", "9,5", "--dtype", "f16", "--weights", "w.npy", "--average-weights"});
    EXPECT_EQ(namesOf(json), "q | k | v | attention | weights | out");
    EXPECT_EQ(json["parameters"], 12 * 4 + 6 * 5 + 3 * 5 + 4 * 6);
    EXPECT_EQ(json["steps"][4]["formula"], "mean over heads of [1, 2, 2, 9]");
    EXPECT_EQ(json["steps"][4]["result"], "[1, 2, 9]");
    EXPECT_EQ(json["shapes"]["context"], (Json{1, 1, 9, 5}));
    EXPECT_EQ(namesOf(explained({"--shape-x", "10000000,4", "--heads", "2", "--rotary", "half"})),
              "q | k | v | q rotary | k rotary | attention | out");
    EXPECT_FALSE(std::filesystem::exists(file("w.npy")));
}

// A layer of files is that of its shapes, and nothing is written.
TEST_F(ExplainLayer, filesAreTheirShapes) {
    given({.x = {2, 16, 8}, .heads = 4, .kvHeads = 2, .headDim = 3, .valueDim = 5, .context = {2, 7, 6}});
    normed(NormPlace::post);
    layer.residual = true;
    Arguments arguments = command();
    arguments.erase(arguments.begin()); // layer
    const Json files = explained(arguments),
               shapes = explained({"--shape-x", "2,16,8", "--shape-context", "2,7,6", "--heads", "4", "--kv-heads", "2", "--head-dim", "3",
                                   "--value-dim", "5", "--biases", "--norm", "post", "--residual"});
    EXPECT_EQ(files, shapes);
    EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
}

TEST_F(ExplainLayer, tellsADevicesChoices) {
    if (Json::parse(tool({"info", "--json"}).out)["devices"].empty()) GTEST_SKIP() << "no Vulkan device here";
    const Outcome outcome = tool({"explain", "layer", "--shape-x", "100,64", "--heads", "2"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const char *const words : {"step ", "device    ", "\nweights   16384 numbers\n", "\nq         projection, ", "\nattention "})
        EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
}

TEST_F(ExplainLayer, refusals) {
    refused({"--heads", "2"}, {"give --x and --params, or --shape-x B,N,D"});
    refused({"--shape-x", "2,4"}, {"--heads is required", "vkattn explain layer --help"});
    refused({"--shape-x", "2,4", "--heads", "2", "--x", "x.npy"}, {"in place of --x, --params and --context", "not both"});
    refused({"--shape-x", "2,4", "--heads", "2", "--context", "x.npy"}, {"give one kind and not both"});
    refused({"--x", "x.npy", "--params", "p", "--heads", "2", "--head-dim", "4"}, {"--head-dim goes with --shape-x"});
    refused({"--x", "x.npy", "--params", "p", "--heads", "2", "--biases"}, {"--biases goes with --shape-x"});
    refused({"--shape-x", "2,7", "--heads", "2"}, {"--heads 2 does not divide", "--head-dim"});
    refused({"--shape-x", "2,4", "--heads", "1000000"}, {"say with --head-dim"});
    refused({"--shape-x", "2,4", "--heads", "1000000", "--head-dim", "4"}, {"too many dims together, expected at most 524288"});
    for (const char *const shape : {"4", "1,2,3,4", "2,0", "0,2,4", "2,x", ""})
        refused({"--shape-x", shape, "--heads", "2"}, {"--shape-x"});
    refused({"--shape-x", "2,2,4", "--heads", "2", "--shape-context", "3,2,4"}, {"batch"});
    refused({"--shape-x", "2,4", "--heads", "2", "--rotary", "half", "--shape-context", "3,4"}, {"--rotary and --context are both given"});
    refused({"--shape-x", "2,4", "--heads", "2", "--kv-heads", "3"}, {"--kv-heads 3 does not divide --heads 2"});
    expectRefused(tool({"explain", "--q", "q.npy", "layer", "--shape-x", "2,4", "--heads", "2"}), {"options before `layer`"});
}

} // namespace
