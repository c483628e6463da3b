// Operands on devices whose memory the host does not see: they pass through a staging buffer, in parts where they are larger.
#include "environment.hpp"
#include "support/faulty_vulkan.hpp"

using namespace vkattn;
using namespace vkattn::test;

TEST(Buffers, largerThanTheStagingBufferArriveWhole) {
    fault = {};
    fault.pretendDiscrete = true;
    RuntimeOptions options;
    options.allowFallback = false;
    options.selfTest = 0;
    options.getInstanceProcAddr = faultyGetInstanceProcAddr;
    Case c;
    c.name = "staging";
    c.batch = c.heads = c.kvHeads = 1, c.queryTokens = 70000, c.keyTokens = 2, c.headDim = c.valueDim = 128; // 34 MiB of queries, and of output
    c.kernel = VKATTN_KERNEL_STAGED;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    const auto runtime = Runtime::open(options, nullptr, nullptr);
    ASSERT_TRUE(runtime);
    const RunResult result = runtime->run(in->problem, in->operands);
    fault = {};
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    vkattn_verify_options verify{};
    verify.structSize = sizeof verify;
    verify.allRows = 1;
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &verify, &report, nullptr), VKATTN_OK);
    EXPECT_TRUE(report.passed) << "row " << report.worstIndex[2] << ": got " << report.worstGot << ", expected " << report.worstExpected;
}
