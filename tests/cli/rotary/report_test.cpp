// What `vkattn rotary` reports, verifies, and ends with: as `vkattn run` does.
#include "rotary_fixture.hpp"

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

class RotaryReport : public RotaryTest {
  protected:
    RotaryReport() { given({2, 3, 16, 8}); }
    [[nodiscard]] Json reported(Arguments more) const {
        more.emplace_back("--json");
        const Outcome outcome = tool(command(more));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.err, "");
        return outcome.status == 0 ? Json::parse(outcome.out) : Json();
    }
    // On the device of the faulty tool.
    [[nodiscard]] Outcome faulty(const std::string &fault, const Arguments &more = {}) const {
        Arguments arguments = {"rotary", "--x", "x.npy", "--out", "o.npy"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return faultyTool(fault, arguments);
    }
    void expectFailure(const Outcome &outcome, int status, const std::string &word) const {
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
        EXPECT_FALSE(exists("o.npy"));
    }
};

TEST_F(RotaryReport, jsonHasTheKeysOfRun) {
    const Json json = reported({"--verify", "--repeat", "3"});
    writeSmallProblem();
    const Outcome outcome = tool(onCpu({"--json", "--verify"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json run = Json::parse(outcome.out);
    EXPECT_EQ(keysOf(json), keysOf(run));
    EXPECT_EQ(keysOf(json["verify"]), keysOf(run["verify"]));
    EXPECT_EQ(keysOf(json["verify"]["worst"]), keysOf(run["verify"]["worst"]));
}

TEST_F(RotaryReport, jsonSaysWhatHappened) {
    Json json = reported({"--repeat", "3"});
    EXPECT_EQ(json["requestedDevice"], "cpu");
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["kernel"], "cpu");
    EXPECT_TRUE(json["fallbackReason"].is_null() && json["tuning"].is_null() && json["cpuPlan"].is_null());
    EXPECT_EQ(json["repeat"], 3);
    EXPECT_GT(json["milliseconds"].get<double>(), 0);
    EXPECT_EQ(json["shapes"], (Json{{"x", {2, 3, 16, 8}}, {"out", {2, 3, 16, 8}}}));
    EXPECT_EQ(json["dtypes"], (Json{{"x", "float32"}, {"out", "float32"}}));
    EXPECT_EQ(json["outputs"], (Json{{"out", "o.npy"}}));
    EXPECT_EQ(json["options"], (Json{{"pairs", "half"}, {"dims", 8}, {"base", 10000.0}, {"start", 0}}));
    EXPECT_FALSE(json.contains("verify"));

    givenTables(randomArray(random, {40, 3}), randomArray(random, {40, 3}));
    writeNpy(file("p.npy"), Array{{2, 16}, std::vector<double>(32, 39)}, {.descr = "<i8"});
    json = reported({"--pairs", "interleaved", "--dims", "6", "--cos", "c.npy", "--sin", "s.npy", "--positions", "p.npy"});
    EXPECT_EQ(json["options"], (Json{{"pairs", "interleaved"}, {"dims", 6}, {"tables", true}, {"positions", true}}));
    EXPECT_EQ(json["shapes"]["cos"], (Json{40, 3}));
    EXPECT_EQ(json["shapes"]["positions"], (Json{2, 16}));
    EXPECT_EQ(json["dtypes"]["sin"], "float32");
    EXPECT_EQ(json["dtypes"]["positions"], "int64");
    EXPECT_EQ(reported({"--base", "500000", "--start", "7"})["options"],
              (Json{{"pairs", "half"}, {"dims", 8}, {"base", 500000.0}, {"start", 7}}));
}

TEST_F(RotaryReport, textSaysWhatHappened) {
    const Outcome outcome = tool(command({"--verify", "--start", "12"}));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    for (const std::string line :
         {"device    cpu", "kernel    cpu", "options   pairs half, dims 8, base 10000, start 12", "read      x.npy (2, 3, 16, 8) float32",
          "wrote     o.npy (2, 3, 16, 8) float32", "verify    passed: every row, 96, max error "})
        EXPECT_NE(outcome.out.find(line), std::string::npos) << line << " is not in: " << outcome.out;
    EXPECT_EQ(outcome.out.find("max |v|"), std::string::npos) << outcome.out; // there are no values
}

TEST_F(RotaryReport, verifyTakesRows) {
    for (const std::string option : {"--verify", "--verify=all", "--verify=1000"}) {
        const Json json = reported({option, "--start", "3"})["verify"];
        EXPECT_EQ(json["passed"], true);
        EXPECT_EQ(json["rows"], "all");
        EXPECT_EQ(json["rowsChecked"], 96);
        EXPECT_TRUE(json["seed"].is_null());
        EXPECT_EQ(json["worst"]["role"], "out");
        EXPECT_EQ(json["worst"]["index"].size(), 4u);
        EXPECT_LE(json["worst"]["error"].get<double>(), json["worst"]["bound"].get<double>());
        EXPECT_LT(json["maxError"].get<double>(), 1e-5);
    }
    const Json json = reported({"--verify=9"})["verify"];
    EXPECT_EQ(json["rows"], "sample");
    EXPECT_GE(json["rowsChecked"].get<int>(), 9);
    EXPECT_LT(json["rowsChecked"].get<int>(), 96);
    EXPECT_EQ(json["rowsTotal"], 96);
    EXPECT_TRUE(json["seed"].is_number());
}

TEST_F(RotaryReport, wrongResultIsExitOneAndIsWrittenNevertheless) {
    const Outcome text = faulty("wrong", {"--verify"});
    EXPECT_EQ(text.status, 1);
    EXPECT_NE(text.out.find("FAILED"), std::string::npos) << text.out;
    EXPECT_NE(text.err.find("verification failed: worst out[0, 0, 0, 5]"), std::string::npos) << text.err;
    EXPECT_NE(text.err.find("written nevertheless: o.npy"), std::string::npos) << text.err;
    EXPECT_EQ(readNpy(file("o.npy")).shape, x.shape);
    const Outcome json = faulty("wrong", {"--verify", "--json"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(Json::parse(json.out)["verify"]["passed"], false);
    EXPECT_EQ(faulty("wrong").status, 0); // unverified
}

TEST_F(RotaryReport, failuresHaveTheStatusesOfRun) {
    for (const std::string fault : {"lost", "unsupported", "device-memory"})
        expectFailure(faulty(fault, {"--no-fallback"}), 3, "faulty: " + fault + ": leave out --no-fallback");
    expectFailure(faulty("unusable", {"--no-fallback"}), 3, "faulty: unusable: leave out --no-fallback");
    expectFailure(faulty("invalid"), 2, "faulty: invalid");
    expectFailure(faulty("cpu-memory"), 2, "faulty: cpu-memory");
    expectFailure(faulty("bad-alloc"), 2, "out of memory");
    writeBytes(file("o.npy"), "old");
    EXPECT_EQ(faulty("lost", {"--no-fallback"}).status, 3);
    EXPECT_EQ(readBytes(file("o.npy")), "old");
}

TEST_F(RotaryReport, withoutADriverTheCpuComputesAndSaysWhy) {
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
    EXPECT_EQ(bytesOf({"--no-fallback"}), fallen); // the CPU that is asked for is no fallback
}

} // namespace
