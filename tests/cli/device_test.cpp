// The tool with and without a Vulkan device. What is computed on a device never falls back here.
#include "cli/run/reference.hpp"
#include "harness.hpp"

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};

class DeviceTest : public CliTest {
  protected:
    std::mt19937_64 random{testSeed()};

    [[nodiscard]] static Arguments run(const Arguments &more = {}) {
        Arguments arguments = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    // The default device as `info` lists it; null where no device can run the staged kernel.
    [[nodiscard]] Json defaultDevice() const {
        const Json json = Json::parse(tool({"info", "--json"}).out);
        for (const Json &device : json["devices"])
            for (const Json &kernel : device["kernels"])
                if (kernel["name"] == "staged" && kernel["available"] == true) return device;
        return nullptr;
    }
    static void expectNear(const ReadArray &got, const Array &expected, double bound) {
        ASSERT_EQ(got.values.size(), expected.values.size());
        for (size_t i = 0; i < got.values.size(); i++) ASSERT_NEAR(got.values[i], expected.values[i], bound) << "element " << i;
    }
};

TEST_F(DeviceTest, computesOnTheDefaultDevice) {
    const Json device = defaultDevice();
    if (device.is_null()) GTEST_SKIP() << "no Vulkan device runs the staged kernel here; vkattn info says why";
    Array q = randomArray(random, {2, 4, 9, 8}), k = randomArray(random, {2, 2, 13, 8}), v = randomArray(random, {2, 2, 13, 5});
    Array bias = randomArray(random, {4, 9, 13}), mask{{1, 13}, std::vector<double>(13, 1)};
    mask.values[3] = mask.values[7] = 0;
    writeNpy(file("q.npy"), q);
    writeNpy(file("k.npy"), k, {.descr = "<f2"});
    writeNpy(file("v.npy"), v, {.fortran = true});
    writeNpy(file("b.npy"), bias);
    writeNpy(file("m.npy"), mask, {.descr = "|b1"});
    writeNpy(file("n.npy"), Array{{2}, {13, 6}}, {.descr = "<i4"});
    ReferenceOptions options{
        .causal = true, .window = true, .left = 7, .right = -1, .softcap = 3, .mask = mask, .bias = bias, .keyLengths = {13, 6}};
    const ReferenceResult expected = referenceAttention(q, k, v, options);

    const Arguments command = run({"--no-fallback", "--verify", "--repeat", "2", "--causal", "bottom-right", "--window", "7,-1",
                                   "--softcap", "3", "--bias", "b.npy", "--mask", "m.npy", "--kv-lengths", "n.npy", "--weights", "w.npy"});
    Outcome outcome = tool(command);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_TRUE(json["requestedDevice"].is_null());
    EXPECT_EQ(json["device"], device["name"]);
    EXPECT_EQ(json["driver"], device["driver"]);
    EXPECT_EQ(json["kernel"], "staged");
    EXPECT_TRUE(json["fallbackReason"].is_null());
    EXPECT_GT(json["milliseconds"].get<double>(), 0);
    EXPECT_GT(json["dispatchCount"].get<int>(), 0);
    EXPECT_EQ(json["verify"]["passed"], true);
    expectNear(readNpy(file("o.npy")), expected.out, 2e-5);
    expectNear(readNpy(file("w.npy")), expected.weights, 2e-5);

    // The same device by index and by name in other letters.
    std::string name = device["name"];
    for (char &c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    for (const std::string &wanted : {device["index"].dump(), name}) {
        Arguments named = command;
        named.insert(named.end(), {"--device", wanted, "--kernel", "staged"});
        outcome = tool(named);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.err, "");
        EXPECT_EQ(Json::parse(outcome.out)["requestedDevice"], wanted);
        EXPECT_EQ(Json::parse(outcome.out)["device"], device["name"]);
    }
}

TEST_F(DeviceTest, halfOnTheDefaultDevice) {
    if (defaultDevice().is_null()) GTEST_SKIP() << "no Vulkan device runs the staged kernel here; vkattn info says why";
    Array q = randomArray(random, {3, 7, 9}), k = randomArray(random, {3, 5, 9}), v = randomArray(random, {3, 5, 7});
    const NpyOptions half{.descr = "<f2", .fortran = true};
    writeNpy(file("q.npy"), q, half);
    writeNpy(file("k.npy"), k, half);
    writeNpy(file("v.npy"), v, half);
    const Outcome outcome = tool(run({"--no-fallback", "--verify"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    EXPECT_EQ(readNpy(file("o.npy")).descr, "<f2");
    expectNear(readNpy(file("o.npy")), referenceAttention(q, k, v).out, 4e-3);
}

TEST_F(DeviceTest, withoutADriverTheCpuComputesAndSaysWhy) {
    writeSmallProblem();
    Outcome outcome = tool(run({"--verify"}), noVulkan);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["kernel"], "cpu");
    EXPECT_FALSE(json["fallbackReason"].get<std::string>().empty());
    EXPECT_EQ(json["verify"]["passed"], true);
    EXPECT_TRUE(exists("o.npy"));
    outcome = tool({"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy"}, noVulkan);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("fallback  computed on the CPU: "), std::string::npos) << outcome.out;
}

TEST_F(DeviceTest, withoutADriverADeviceByNameFallsBackToo) {
    writeSmallProblem();
    for (const std::string device : {"0", "some gpu"}) {
        const Outcome outcome = tool(run({"--device", device}), noVulkan);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(Json::parse(outcome.out)["requestedDevice"], device);
        EXPECT_TRUE(Json::parse(outcome.out)["fallbackReason"].is_string());
    }
}

TEST_F(DeviceTest, withoutADriverNoFallbackIsExitThree) {
    writeSmallProblem();
    for (const Arguments &device : {Arguments{}, Arguments{"--device", "0"}}) {
        Arguments arguments = run({"--no-fallback"});
        arguments.insert(arguments.end(), device.begin(), device.end());
        const Outcome outcome = tool(arguments, noVulkan);
        EXPECT_EQ(outcome.status, 3);
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find("leave out --no-fallback"), std::string::npos) << outcome.err;
        EXPECT_FALSE(exists("o.npy"));
    }
}

TEST_F(DeviceTest, theCpuAskedForIsNoFallback) {
    writeSmallProblem();
    const Outcome outcome = tool(run({"--no-fallback", "--device", "cpu"}), noVulkan);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(Json::parse(outcome.out)["fallbackReason"].is_null());
}

} // namespace
