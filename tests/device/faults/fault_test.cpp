// Problems that the device cannot take go to the CPU, which says why; devices that are not there
// are not opened. Vulkan calls that fail are in every_call_test.cpp.
#include "device/environment.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

std::unique_ptr<test::CaseData> someProblem() {
    Case c;
    c.name = "fault";
    c.causal = c.lse = true;
    Random random = randomFor(c.name);
    return makeCaseData(c, random);
}

bool right(const test::CaseData &in) {
    vkattn_verify_report report{};
    return vkattnCpuVerify(&in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), nullptr, &report, nullptr) ==
               VKATTN_OK &&
           report.passed;
}

} // namespace

TEST(Fault, aProblemTheDeviceCannotTakeGoesToTheCpu) {
    RuntimeOptions options = optionsFor(Limits::tiny);
    Case c;
    c.name = "tooWide";
    // One row of scores is above the pretended 64 KiB.
    c.keyTokens = 20000, c.queryTokens = 2, c.batch = 1;
    Random random = randomFor(c.name);
    const auto in = makeCaseData(c, random);
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
