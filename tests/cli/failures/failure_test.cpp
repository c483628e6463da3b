// The tool's answers where the computation fails, through a runtime that fails on purpose.
#include "cli/harness.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <thread>

namespace {

using Json = nlohmann::json;

class FailureTest : public CliTest {
  protected:
    FailureTest() { writeSmallProblem(); }
    static Arguments command(const Arguments &more = {}) {
        Arguments arguments = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--lse", "lse.npy"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    void expectFailure(const Outcome &outcome, int status, const std::string &word) const {
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
        EXPECT_FALSE(exists("o.npy"));
        EXPECT_FALSE(exists("lse.npy"));
    }
};

TEST_F(FailureTest, wrongResultIsExitOneAndIsWrittenNevertheless) {
    const Outcome text = faultyTool("wrong", command({"--verify"}));
    EXPECT_EQ(text.status, 1);
    EXPECT_NE(text.out.find("FAILED"), std::string::npos) << text.out;
    EXPECT_NE(text.err.find("verification failed: worst out[0, 0, 1, 1]"), std::string::npos) << text.err;
    EXPECT_NE(text.err.find("written nevertheless: o.npy, lse.npy"), std::string::npos) << text.err;
    EXPECT_TRUE(exists("o.npy"));
    EXPECT_TRUE(exists("lse.npy"));

    const Outcome outcome = faultyTool("wrong", command({"--verify", "--json"}));
    EXPECT_EQ(outcome.status, 1);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["verify"]["passed"], false);
    EXPECT_EQ(json["verify"]["rowsChecked"], 5);
    const Json &worst = json["verify"]["worst"];
    EXPECT_EQ(worst["role"], "out");
    EXPECT_EQ(worst["index"], (std::vector<int>{0, 0, 1, 1}));
    EXPECT_NEAR(worst["error"].get<double>(), 1, 1e-3);
    EXPECT_NEAR(worst["got"].get<double>() - worst["expected"].get<double>(), 1, 1e-3);
    EXPECT_LT(worst["bound"].get<double>(), 1e-3);
    EXPECT_NEAR(json["verify"]["maxError"].get<double>(), 1, 1e-3);
}

TEST_F(FailureTest, valuesThatJsonLacksAreStrings) {
    const Outcome outcome = faultyTool("nan", command({"--verify=all", "--json"}));
    EXPECT_EQ(outcome.status, 1);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["verify"]["worst"]["role"], "lse");
    EXPECT_EQ(json["verify"]["worst"]["index"], (std::vector<int>{0, 0, 1}));
    EXPECT_EQ(json["verify"]["worst"]["got"], "NaN");
    EXPECT_EQ(json["verify"]["worst"]["error"], "Infinity");
}

TEST_F(FailureTest, wrongResultUnverifiedIsSuccess) {
    EXPECT_EQ(faultyTool("wrong", command()).status, 0);
}

TEST_F(FailureTest, deviceThatFailsIsExitThree) {
    for (const std::string fault : {"lost", "unsupported", "device-memory"}) {
        expectFailure(faultyTool(fault, command({"--no-fallback"})), 3, "faulty: " + fault + ": leave out --no-fallback");
        expectFailure(faultyTool(fault, command({"--no-fallback", "--json"})), 3, "faulty: " + fault);
    }
    expectFailure(faultyTool("unusable", command({"--no-fallback"})), 3, "faulty: unusable: leave out --no-fallback");
}

TEST_F(FailureTest, badInputAndHostMemoryAreExitTwo) {
    expectFailure(faultyTool("invalid", command()), 2, "faulty: invalid");
    expectFailure(faultyTool("cpu-memory", command()), 2, "faulty: cpu-memory");
    expectFailure(faultyTool("cpu-memory", command({"--no-fallback"})), 2, "faulty: cpu-memory");
    expectFailure(faultyTool("bad-alloc", command()), 2, "out of memory");
}

TEST_F(FailureTest, failureLeavesAnOlderOutputAlone) {
    writeBytes(file("o.npy"), "old");
    EXPECT_EQ(faultyTool("lost", command({"--no-fallback"})).status, 3);
    EXPECT_EQ(readBytes(file("o.npy")), "old");
}

TEST_F(FailureTest, aSignalRemovesTheTemporaries) {
    for (const int signalNumber : {SIGTERM, SIGINT, SIGHUP}) {
        Arguments slow = command();
        slow.insert(slow.begin(), VKATTN_FAULTY_TOOL);
        const int process = launch(slow, {"VKATTN_TEST_FAULT=slow"});
        for (int n = 0; n < 1000 && temporaries().size() < 2; n++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_EQ(temporaries().size(), 2u);
        kill(process, signalNumber);
        EXPECT_EQ(await(process).status, 128 + signalNumber);
        EXPECT_TRUE(temporaries().empty());
        EXPECT_FALSE(exists("o.npy"));
    }
}

TEST_F(FailureTest, infoTakesNamesThatAreNotUtf8) {
    const Outcome json = faultyTool("strange-device", {"info", "--json"});
    EXPECT_EQ(json.status, 0) << json.err;
    const Json parsed = Json::parse(json.out);
    EXPECT_NE(parsed["devices"][0]["name"].get<std::string>().find("of \"quotes\"\n"), std::string::npos);
    EXPECT_EQ(parsed["devices"][0]["kernels"][0]["available"], false);
    EXPECT_EQ(parsed["devices"][0]["kernels"][0]["reason"], "maxStorageBuffersPerStage is 3, 4 are needed");
    EXPECT_TRUE(parsed["devices"][0]["kernels"][1]["reason"].is_null());
    EXPECT_TRUE(parsed["devices"][0]["limits"]["subgroupSize"].is_null());
    const Outcome text = faultyTool("strange-device", {"info"});
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.out.find("staged         not available: maxStorageBuffersPerStage is 3, 4 are needed"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("future         available\n"), std::string::npos) << text.out;
}

TEST_F(FailureTest, infoWithoutDevicesAlwaysSaysWhy) {
    const Outcome json = faultyTool("no-reason", {"info", "--json"});
    EXPECT_EQ(Json::parse(json.out)["noVulkanReason"], "no Vulkan device found");
}

} // namespace
