// A lost device, exhausted memory, a driver that fails to compile: the CPU answers, says why, and is right; without permission to fall back
// the run fails and says why.
#include "environment.hpp"
#include "support/faulty_vulkan.hpp"

#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct FaultCase {
    const char *function;
    VkResult result;
    vkattn_result code;
    const char *reason;
    bool atOpen; // strikes while the device is opened
};
const FaultCase faults[] = {
    {"vkQueueSubmit", VK_ERROR_DEVICE_LOST, VKATTN_ERROR_DEVICE_LOST, "the device was lost: vkQueueSubmit failed: VK_ERROR_DEVICE_LOST",
     false},
    {"vkWaitForFences", VK_ERROR_DEVICE_LOST, VKATTN_ERROR_DEVICE_LOST, "the device was lost", false},
    {"vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY, VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", false},
    {"vkMapMemory", VK_ERROR_MEMORY_MAP_FAILED, VKATTN_ERROR_VULKAN, "VK_ERROR_MEMORY_MAP_FAILED", false},
    {"vkCreateBuffer", VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", false},
    {"vkCreateComputePipelines", VK_ERROR_OUT_OF_DEVICE_MEMORY, VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "vkCreateComputePipelines", false},
    {"vkCreateShaderModule", VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "vkCreateShaderModule", false},
    {"vkBeginCommandBuffer", VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "vkBeginCommandBuffer", false},
    {"vkEndCommandBuffer", VK_ERROR_OUT_OF_DEVICE_MEMORY, VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "vkEndCommandBuffer", false},
    {"vkCreateDevice", VK_ERROR_INITIALIZATION_FAILED, VKATTN_OK, "VK_ERROR_INITIALIZATION_FAILED", true},
    {"vkCreateCommandPool", VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_OK, "VK_ERROR_OUT_OF_HOST_MEMORY", true},
    {"vkCreatePipelineLayout", VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_OK, "vkCreatePipelineLayout", true},
    {"vkCreateDescriptorSetLayout", VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_OK, "vkCreateDescriptorSetLayout", true},
};

std::unique_ptr<test::Instance> someProblem() {
    Case c;
    c.name = "fault";
    c.causal = c.lse = true;
    Random random = randomFor(c.name);
    return makeInstance(c, random);
}

bool right(const test::Instance &in) {
    vkattn_verify_report report{};
    return vkattnCpuVerify(&in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), nullptr, &report, nullptr) ==
               VKATTN_OK &&
           report.passed;
}

} // namespace

TEST(Fault, theCpuAnswersAndSaysWhy) {
    for (const FaultCase &f : faults)
        for (const bool allowFallback : {true, false}) {
            RuntimeOptions options;
            options.allowFallback = allowFallback;
            options.getInstanceProcAddr = faultyGetInstanceProcAddr;
            fault = {};
            if (f.atOpen) fault = {f.function, f.result, 1, 0, false};
            OpenStatus status;
            std::string message;
            const auto runtime = Runtime::open(options, &status, &message);
            if (f.atOpen && !allowFallback) {
                EXPECT_FALSE(runtime) << f.function;
                EXPECT_EQ(status, OpenStatus::deviceUnusable);
                EXPECT_NE(message.find(f.reason), std::string::npos) << message;
                continue;
            }
            ASSERT_TRUE(runtime) << message;
            if (!f.atOpen) fault = {f.function, f.result, 1, 0, false};
            const auto in = someProblem();
            const HostTensor untouched = in->out;
            const RunResult result = runtime->run(in->problem, in->operands);
            if (allowFallback) {
                EXPECT_EQ(result.status, VKATTN_OK) << f.function;
                EXPECT_EQ(result.kernel, "cpu") << f.function;
                EXPECT_NE(result.fallbackReason.find(f.reason), std::string::npos) << f.function << ": " << result.fallbackReason;
                EXPECT_TRUE(right(*in)) << f.function;
            } else {
                EXPECT_EQ(result.status, f.code) << f.function << ": " << result.message;
                EXPECT_NE(result.message.find(f.reason), std::string::npos) << result.message;
                EXPECT_EQ(0, std::memcmp(untouched.data(), in->out.data(), untouched.bytes())) << f.function;
            }
            // What was no loss of the device is over: the next run uses it again. A lost device stays lost.
            if (!f.atOpen) {
                const RunResult next = runtime->run(in->problem, in->operands);
                if (f.result == VK_ERROR_DEVICE_LOST) {
                    EXPECT_EQ(next.status, allowFallback ? VKATTN_OK : VKATTN_ERROR_DEVICE_LOST) << f.function;
                    EXPECT_NE((next.fallbackReason + next.message).find("the device was lost"), std::string::npos) << f.function;
                } else {
                    EXPECT_EQ(next.fallbackReason, "") << f.function;
                    EXPECT_NE(next.kernel, "cpu") << f.function;
                }
                if (next.status == VKATTN_OK) {
                    EXPECT_TRUE(right(*in)) << f.function;
                }
            }
        }
    fault = {};
}

TEST(Fault, aProblemTheDeviceCannotTakeGoesToTheCpu) {
    RuntimeOptions options = optionsFor(Room::tiny);
    Case c;
    c.name = "tooWide";
    c.keyTokens = 20000, c.queryTokens = 2, c.batch = 1; // one row of scores is above the pretended 64 KiB
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    for (const bool allowFallback : {true, false}) {
        options.allowFallback = allowFallback;
        const auto runtime = Runtime::open(options, nullptr, nullptr);
        ASSERT_TRUE(runtime);
        const RunResult result = runtime->run(in->problem, in->operands);
        const std::string &reason = allowFallback ? result.fallbackReason : result.message;
        EXPECT_EQ(result.status, allowFallback ? VKATTN_OK : VKATTN_ERROR_UNSUPPORTED);
        EXPECT_NE(reason.find("maxStorageBufferRange"), std::string::npos) << reason;
        if (allowFallback) {
            EXPECT_TRUE(right(*in));
        }
    }
}

TEST(Fault, unknownDevicesAreListed) {
    OpenStatus status;
    std::string message;
    RuntimeOptions options;
    for (const char *name : {"no such device", "999", "99999999999999999999"}) {
        options.device = name;
        EXPECT_FALSE(Runtime::open(options, &status, &message));
        EXPECT_EQ(status, OpenStatus::unknownDevice);
        EXPECT_NE(message.find("  0  "), std::string::npos) << message;
    }
    options.device = Runtime::devices().at(0).name.substr(0, 6);
    EXPECT_TRUE(Runtime::open(options, &status, &message)) << message;
    options.device = "CPU";
    const auto cpu = Runtime::open(options, &status, &message);
    ASSERT_TRUE(cpu);
    EXPECT_EQ(cpu->device(), nullptr);
    const auto in = someProblem();
    const RunResult result = cpu->run(in->problem, in->operands);
    EXPECT_EQ(result.fallbackReason, "");
    EXPECT_EQ(result.device, "cpu");
    EXPECT_TRUE(right(*in));
}
