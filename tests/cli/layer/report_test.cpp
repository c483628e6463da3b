// What `vkattn layer` reports, verifies, and ends with: as `vkattn run` does, and the steps.
#include "layer_fixture.hpp"

#include <nlohmann/json.hpp>

#include <set>

namespace {

using Json = nlohmann::json;

const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};

std::set<std::string> keysOf(const Json &json) {
    std::set<std::string> keys;
    for (const auto &[key, value] : json.items()) keys.insert(key);
    return keys;
}

std::vector<std::string> namesOf(const Json &json) {
    std::vector<std::string> names;
    for (const Json &step : json["steps"]) names.push_back(step["name"]);
    return names;
}

class LayerReport : public LayerTest {
  protected:
    LayerReport() { given({.x = {2, 16, 8}}); }
    [[nodiscard]] Json reported(Arguments more) const {
        more.emplace_back("--json");
        const Outcome outcome = tool(command(more));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.err, "");
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    // On the device of the faulty tool.
    [[nodiscard]] Outcome faulty(const std::string &fault, const Arguments &more = {}) {
        where = {};
        return faultyTool(fault, command(more));
    }
    void expectFailure(const Outcome &outcome, int status, const std::string &word) const {
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
        EXPECT_FALSE(exists("o.npy"));
        EXPECT_FALSE(exists("w.npy"));
    }
};

TEST_F(LayerReport, jsonHasTheKeysOfRunAndTheSteps) {
    const Json json = reported({"--verify", "--repeat", "3"});
    writeSmallProblem();
    const Outcome outcome = tool(onCpu({"--json", "--verify"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json run = Json::parse(outcome.out);
    std::set<std::string> keys = keysOf(run);
    keys.insert("steps");
    EXPECT_EQ(keysOf(json), keys);
    EXPECT_EQ(keysOf(json["verify"]), keysOf(run["verify"]));
    EXPECT_EQ(keysOf(json["verify"]["worst"]), keysOf(run["verify"]["worst"]));
    const std::set<std::string> row = {"name", "operation", "formula", "result", "flops", "bytes", "verify"};
    ASSERT_EQ(json["steps"].size(), 5u);
    uint64_t checked = 0;
    for (const Json &step : json["steps"]) {
        EXPECT_EQ(keysOf(step), row);
        EXPECT_EQ(keysOf(step["verify"]), keysOf(run["verify"]));
        EXPECT_EQ(step["verify"]["passed"], true);
        checked += step["verify"]["rowsChecked"].get<uint64_t>();
    }
    EXPECT_EQ(json["verify"]["rowsChecked"], checked);
}

TEST_F(LayerReport, jsonSaysWhatHappened) {
    Json json = reported({"--repeat", "3"});
    EXPECT_EQ(json["requestedDevice"], "cpu");
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["kernel"], "cpu");
    EXPECT_TRUE(json["fallbackReason"].is_null() && json["tuning"].is_null());
    EXPECT_EQ(json["repeat"], 3);
    EXPECT_GT(json["milliseconds"].get<double>(), 0);
    EXPECT_EQ(json["options"], (Json{{"heads", 2}}));
    EXPECT_EQ(json["shapes"]["x"], (Json{2, 16, 8}));
    EXPECT_EQ(json["shapes"]["wq"], (Json{8, 8}));
    EXPECT_EQ(json["shapes"]["bo"], (Json{8}));
    EXPECT_EQ(json["shapes"]["out"], (Json{2, 16, 8}));
    EXPECT_EQ(json["dtypes"]["wo"], "float32");
    EXPECT_EQ(json["outputs"], (Json{{"out", "o.npy"}}));
    EXPECT_FALSE(json.contains("verify"));
    EXPECT_FALSE(json["steps"][0].contains("verify"));

    given({.x = {2, 16, 8}, .heads = 4, .kvHeads = 2, .headDim = 3, .valueDim = 5, .context = {2, 7, 6}, .biases = false});
    normed(NormPlace::post);
    layer.residual = true;
    json = reported(
        {"--weights", "w.npy", "--average-weights", "--lse", "lse.npy", "--eps", "0.25", "--causal", "top-left", "--round-to", "f16"});
    EXPECT_EQ(json["options"], (Json{{"heads", 4},
                                     {"kvHeads", 2},
                                     {"norm", "post"},
                                     {"eps", 0.25},
                                     {"residual", true},
                                     {"averageWeights", true},
                                     {"roundTo", "f16"},
                                     {"causal", "top-left"}}));
    EXPECT_EQ(json["shapes"]["context"], (Json{2, 7, 6}));
    EXPECT_EQ(json["shapes"]["gamma"], (Json{8}));
    EXPECT_FALSE(json["shapes"].contains("bq"));
    EXPECT_EQ(json["shapes"]["weights"], (Json{2, 16, 7}));
    EXPECT_EQ(json["shapes"]["lse"], (Json{2, 4, 16}));
    EXPECT_EQ(json["outputs"], (Json{{"out", "o.npy"}, {"lse", "lse.npy"}, {"weights", "w.npy"}}));
}

TEST_F(LayerReport, stepsAreThoseOfTheLayer) {
    given({.x = {2, 16, 8}, .heads = 4, .kvHeads = 2, .headDim = 3, .valueDim = 5, .out = 9, .context = {2, 7, 6}});
    Json json = reported({});
    EXPECT_EQ(namesOf(json), (std::vector<std::string>{"q", "k", "v", "attention", "out"}));
    const std::vector<std::string> operations = {"projection", "projection", "projection", "attention", "projection"};
    const std::vector<std::string> formulas = {"[2, 16, 8] x [12, 8]^T", "[2, 7, 6] x [6, 6]^T", "[2, 7, 6] x [10, 6]^T",
                                               "[2, 4, 16, 3], keys [2, 2, 7, 3]", "[2, 16, 20] x [9, 20]^T"};
    const std::vector<std::string> results = {"[2, 16, 12]", "[2, 7, 6]", "[2, 7, 10]", "[2, 4, 16, 5]", "[2, 16, 9]"};
    for (size_t n = 0; n < 5; ++n) {
        const Json &step = json["steps"][n];
        EXPECT_EQ(step["operation"], operations[n]);
        EXPECT_EQ(step["formula"], formulas[n]);
        EXPECT_EQ(step["result"], results[n]);
        EXPECT_GT(step["flops"].get<double>(), 0);
        EXPECT_GT(step["bytes"].get<double>(), 0);
    }
    // Two for each element of a matrix and each token.
    EXPECT_NEAR(json["steps"][0]["flops"].get<double>(), 2 * 32 * 12 * 8, 32 * 12);
    normed(NormPlace::post);
    EXPECT_EQ(namesOf(reported({})), (std::vector<std::string>{"q", "k", "v", "attention", "out", "norm"}));
    normed(NormPlace::pre);
    json = reported({});
    EXPECT_EQ(namesOf(json), (std::vector<std::string>{"norm", "q", "k", "v", "attention", "out"}));
    EXPECT_EQ(json["steps"][0]["operation"], "norm");
    EXPECT_EQ(json["steps"][0]["formula"], "rows of [2, 16, 8]");
}

TEST_F(LayerReport, outputDropoutIsAStep) {
    given({.x = {2, 16, 8}});
    layer.residual = true, layer.outputDropout = 0.25;
    const Json json = reported({"--seed", "9", "--offset", "3"});
    EXPECT_EQ(namesOf(json), (std::vector<std::string>{"q", "k", "v", "attention", "out", "drop"}));
    EXPECT_EQ(json["steps"][5]["operation"], "drop");
    EXPECT_EQ(json["steps"][5]["formula"], "dropout of [2, 16, 8]");
    EXPECT_EQ(json["steps"][5]["result"], "[2, 16, 8]");
    EXPECT_EQ(json["options"]["outputDropout"], 0.25);
    EXPECT_EQ(json["options"]["seed"], 9);
    EXPECT_EQ(json["options"]["offset"], 3);
}

TEST_F(LayerReport, rotationsAreSteps) {
    given({.x = {2, 16, 8}, .heads = 4, .kvHeads = 2, .headDim = 6});
    layer.rotary = RotaryReference{.interleaved = true, .dims = 4, .start = 7, .base = 500};
    const Json json = reported({});
    EXPECT_EQ(namesOf(json), (std::vector<std::string>{"q", "k", "v", "q rotary", "k rotary", "attention", "out"}));
    EXPECT_EQ(json["steps"][4]["operation"], "rotary");
    EXPECT_EQ(json["steps"][4]["formula"], "[2, 2, 16, 6] by [16, 2] angles");
    EXPECT_EQ(json["steps"][4]["result"], "[2, 2, 16, 6]");
    EXPECT_GT(json["steps"][4]["bytes"].get<double>(), 0);
    EXPECT_EQ(json["options"]["rotary"], "interleaved");
    EXPECT_EQ(json["options"]["rotaryDims"], 4);
    EXPECT_EQ(json["options"]["rotaryBase"], 500);
    EXPECT_EQ(json["options"]["rotaryStart"], 7);
}

TEST_F(LayerReport, textHasTheTableOfSteps) {
    normed(NormPlace::post);
    layer.residual = true;
    const Outcome outcome = tool(command({"--verify", "--weights", "w.npy"}));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    for (const std::string line :
         {"device    cpu", "kernel    cpu", "options   heads 2, norm post, eps 1e-05, residual\n", "read      x.npy (2, 16, 8) float32\n",
          "read      p/wq.npy (8, 8) float32\n", "read      p/beta.npy (8,) float32\n", "\n  step ", "\n  q  ", "[2, 16, 8] x [8, 8]^T",
          "\n  k  ", "\n  v  ", "\n  attention  [2, 2, 16, 4], keys [2, 2, 16, 4]", "\n  out  ", "\n  norm  ", "\n  all  ",
          "verify    passed: every row, ", "\n          worst in step ", "wrote     o.npy (2, 16, 8) float32\n",
          "wrote     w.npy (2, 2, 16, 16) float32\n"})
        EXPECT_NE(outcome.out.find(line), std::string::npos) << line << " is not in: " << outcome.out;
    // The table's columns lie under each other.
    const size_t begin = outcome.out.find("  step "), end = outcome.out.find("verify  ");
    ASSERT_NE(begin, std::string::npos);
    std::set<size_t> widths;
    size_t rows = 0;
    for (size_t at = begin; at < end; at = outcome.out.find('\n', at) + 1, ++rows) widths.insert(outcome.out.find('\n', at) - at);
    EXPECT_EQ(rows, 8u) << outcome.out;
    EXPECT_EQ(widths.size(), 1u) << outcome.out;
}

TEST_F(LayerReport, verifyTakesRows) {
    const Json all = reported({"--verify=all"})["verify"];
    EXPECT_EQ(all["passed"], true);
    EXPECT_EQ(all["rows"], "all");
    EXPECT_EQ(all["rowsChecked"], all["rowsTotal"]);
    EXPECT_TRUE(all["seed"].is_null());
    EXPECT_LE(all["worst"]["error"].get<double>(), all["worst"]["bound"].get<double>());
    const Json some = reported({"--verify=9"})["verify"];
    EXPECT_EQ(some["rows"], "sample");
    EXPECT_LT(some["rowsChecked"].get<int>(), all["rowsChecked"].get<int>());
    EXPECT_EQ(some["rowsTotal"], all["rowsTotal"]);
    EXPECT_TRUE(some["seed"].is_number());
}

TEST_F(LayerReport, verifyPassesWithEveryOption) {
    for (const NormPlace place : {NormPlace::none, NormPlace::post, NormPlace::pre}) {
        normed(place);
        layer.residual = place != NormPlace::pre;
        for (const Arguments &options :
             {Arguments{}, {"--round-to", "bf16"}, {"--round-to", "f16", "--out-dtype", "f16", "--softcap", "2"}}) {
            Arguments verified = options;
            verified.emplace_back("--verify=all");
            EXPECT_EQ(reported(verified)["verify"]["passed"], true);
        }
    }
}

// Only keys are wrong there: what follows is right for what it was given.
TEST_F(LayerReport, wrongResultIsExitOneNamesTheStepAndIsWrittenNevertheless) {
    const Outcome text = faulty("wrong", {"--verify"});
    EXPECT_EQ(text.status, 1);
    EXPECT_NE(text.out.find("FAILED"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("worst in step k: out[0, 0, 0, 5]"), std::string::npos) << text.out;
    EXPECT_NE(text.err.find("verification failed: worst in step k: out[0, 0, 0, 5]"), std::string::npos) << text.err;
    EXPECT_NE(text.err.find("written nevertheless: o.npy"), std::string::npos) << text.err;
    EXPECT_EQ(readNpy(file("o.npy")).shape, (std::vector<size_t>{2, 16, 8}));
    const Outcome outcome = faulty("wrong", {"--verify", "--json"});
    EXPECT_EQ(outcome.status, 1);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["verify"]["passed"], false);
    for (const Json &step : json["steps"]) EXPECT_EQ(step["verify"]["passed"], step["name"] != "k") << step;
    EXPECT_EQ(faulty("wrong").status, 0); // unverified
}

TEST_F(LayerReport, aDeviceThatComputes) {
    const Outcome outcome = faulty("none", {"--json", "--verify", "--no-fallback"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["device"], "faulty");
    EXPECT_NE(json["kernel"], "cpu");
    EXPECT_NE(json["kernel"], "");
    EXPECT_TRUE(json["fallbackReason"].is_null() && json["requestedDevice"].is_null());
    EXPECT_EQ(json["verify"]["passed"], true);
}

TEST_F(LayerReport, withoutFallbackDeviceFailuresAreExitThree) {
    for (const std::string fault : {"lost", "unsupported", "device-memory", "unusable", "no-room", "upload", "download"})
        expectFailure(faulty(fault, {"--no-fallback", "--weights", "w.npy"}), 3, "faulty: " + fault + ": leave out --no-fallback");
    expectFailure(faulty("verify", {"--no-fallback", "--verify"}), 3, "faulty: verify: leave out --no-fallback");
    writeBytes(file("o.npy"), "old");
    EXPECT_EQ(faulty("lost", {"--no-fallback"}).status, 3);
    EXPECT_EQ(readBytes(file("o.npy")), "old");
}

TEST_F(LayerReport, whatNoFallbackHelpsIsExitTwo) {
    for (const Arguments &more : {Arguments{}, Arguments{"--no-fallback"}}) expectFailure(faulty("invalid", more), 2, "faulty: invalid");
    for (const std::string fault : {"cpu-memory", "no-room-at-all"}) expectFailure(faulty(fault), 2, "faulty: " + fault);
    expectFailure(faulty("bad-alloc"), 2, "out of memory");
}

// A device that fails at any point leaves the work to the CPU, whose result is whole.
TEST_F(LayerReport, fallbackNamesItsReason) {
    const ReadArray expected = resultOf();
    for (const std::string fault : {"lost", "unsupported", "device-memory", "no-room", "upload", "download", "verify"}) {
        std::filesystem::remove(file("o.npy"));
        const Outcome outcome = faulty(fault, {"--json", "--verify"});
        ASSERT_EQ(outcome.status, 0) << fault << ": " << outcome.err;
        const Json json = Json::parse(outcome.out);
        EXPECT_EQ(json["device"], "cpu");
        EXPECT_EQ(json["kernel"], "cpu");
        EXPECT_EQ(json["fallbackReason"], "faulty: faulty: " + fault);
        EXPECT_EQ(json["verify"]["passed"], true);
        const ReadArray got = readNpy(file("o.npy"));
        ASSERT_EQ(got.values.size(), expected.values.size());
        for (size_t n = 0; n < got.values.size(); ++n) ASSERT_NEAR(got.values[n], expected.values[n], 1e-5);
    }
    const Outcome text = faulty("lost");
    EXPECT_NE(text.out.find("fallback  computed on the CPU: faulty: faulty: lost\n"), std::string::npos) << text.out;
}

TEST_F(LayerReport, withoutADriverTheCpuComputesAndSaysWhy) {
    where = {};
    const Outcome outcome = tool(command({"--json"}), noVulkan);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_TRUE(json["requestedDevice"].is_null());
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_FALSE(json["fallbackReason"].get<std::string>().empty());
    const std::string fallen = readBytes(file("o.npy"));
    std::filesystem::remove(file("o.npy"));
    expectFailure(tool(command({"--no-fallback"}), noVulkan), 3, "leave out --no-fallback");
    where = {"--device", "cpu"};
    (void)resultOf({"--no-fallback"}); // the CPU that is asked for is no fallback
    EXPECT_EQ(readBytes(file("o.npy")), fallen);
}

} // namespace
