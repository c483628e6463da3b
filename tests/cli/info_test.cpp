// `vkattn info`, whatever devices this machine has.
#include "harness.hpp"

#include <nlohmann/json.hpp>

#include <thread>

namespace {

using Json = nlohmann::json;

const std::vector<std::string> noVulkan = {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"};

class InfoTest : public CliTest {
  protected:
    void checkDevice(const Json &device) const {
        SCOPED_TRACE(device.dump());
        for (const char *key : {"name", "type", "driver", "apiVersion"}) EXPECT_FALSE(device[key].get<std::string>().empty()) << key;
        for (const char *key : {"index", "vendorId", "deviceId", "deviceLocalBytes"}) EXPECT_TRUE(device[key].is_number_unsigned()) << key;
        for (const char *key : {"timestamps", "storage16Bit", "shaderFloat16", "cooperativeMatrix", "pushDescriptors", "floatControlsNan",
                                "subgroupShuffle", "subgroupClustered", "fullSubgroups"})
            EXPECT_TRUE(device["features"][key].is_boolean()) << key;
        for (const char *key : {"maxAllocationBytes", "maxStorageBufferRange", "minStorageBufferOffsetAlignment",
                                "maxStorageBuffersPerStage", "maxPushConstantsBytes", "maxWorkgroupInvocations", "maxSharedMemoryBytes"})
            EXPECT_TRUE(device["limits"][key].is_number_unsigned()) << key;
        EXPECT_TRUE(device["limits"]["subgroupSize"].is_null() || device["limits"]["subgroupSize"] > 0);
        std::vector<std::string> names;
        for (const Json &kernel : device["kernels"]) {
            names.push_back(kernel["name"]);
            EXPECT_TRUE(kernel["available"].get<bool>() || kernel["reason"].is_string()) << "unavailable without a reason";
        }
        EXPECT_EQ(names, (std::vector<std::string>{"staged", "flash", "decode", "flash_coopmat", "flash_coopmat2"}));
        const Json &matrices = device["matrixUnits"];
        EXPECT_EQ(device["features"]["cooperativeMatrix"].get<bool>(), !matrices["shapes"].empty());
        for (const Json &shape : matrices["shapes"]) {
            for (const char *key : {"m", "n", "k"}) EXPECT_GT(shape[key], 0u) << key;
            EXPECT_TRUE(shape["inputs"] == "f16" || shape["inputs"] == "bf16");
        }
        EXPECT_TRUE(matrices["matrix2"].is_array());
        EXPECT_EQ(matrices["granularity"].is_null(), matrices["maxDimension"].is_null());
        EXPECT_EQ(device["limits"]["minSubgroupSize"].is_null(), device["limits"]["maxSubgroupSize"].is_null());
    }
};

TEST_F(InfoTest, jsonDescribesEveryDeviceAndTheCpu) {
    const Outcome outcome = tool({"info", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_TRUE(json["version"].is_string());
    EXPECT_EQ(json["noVulkanReason"].is_null(), !json["devices"].empty());
    EXPECT_EQ(json["cpu"]["cores"], std::thread::hardware_concurrency());
    EXPECT_EQ(json["cpu"]["kernels"][0]["name"], "cpu");
    for (size_t i = 0; i < json["devices"].size(); i++) {
        EXPECT_EQ(json["devices"][i]["index"], i);
        checkDevice(json["devices"][i]);
    }
}

TEST_F(InfoTest, textNamesTheSameDevices) {
    const Outcome outcome = tool({"info"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("\ncpu\n"), std::string::npos);
    const Json json = Json::parse(tool({"info", "--json"}).out);
    for (const std::string word : {"\n  kernel          flash    ", "\n  kernel          decode   ", "\n  kernel          flash_coopmat ",
                                   "\n  matrix units    ", ", shuffles: ", ", clustered: ", ", whole: "})
        EXPECT_TRUE(json["devices"].empty() || outcome.out.find(word) != std::string::npos) << outcome.out;
    for (const Json &device : json["devices"])
        EXPECT_NE(outcome.out.find("device " + device["index"].dump() + ": " + device["name"].get<std::string>() + "\n"), std::string::npos)
            << outcome.out;
}

TEST_F(InfoTest, withoutADriverItSaysSo) {
    const Outcome json = tool({"info", "--json"}, noVulkan);
    EXPECT_EQ(json.status, 0);
    const Json parsed = Json::parse(json.out);
    EXPECT_TRUE(parsed["devices"].empty());
    EXPECT_FALSE(parsed["noVulkanReason"].get<std::string>().empty());
    const Outcome text = tool({"info"}, noVulkan);
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.out.find("no Vulkan device: " + parsed["noVulkanReason"].get<std::string>()), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("\ncpu\n"), std::string::npos);
}

} // namespace
