// The objects that the runtime keeps between problems: the staging buffer of devices whose memory
// the host does not see, and the descriptor pool of those without push descriptors.
#include "environment.hpp"
#include "support/vulkan/faulty_vulkan.hpp"

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
    // 34 MiB of queries, and of output
    c.batch = c.heads = c.kvHeads = 1, c.queryTokens = 70000, c.keyTokens = 2, c.headDim = c.valueDim = 128;
    c.kernel = VKATTN_KERNEL_STAGED;
    Random random = randomFor(c.name);
    const auto in = makeCaseData(c, random);
    const auto runtime = Runtime::open(options, nullptr, nullptr);
    ASSERT_TRUE(runtime);
    const RunResult result = runtime->run(in->problem, in->operands);
    fault = {};
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    vkattn_verify_options verify{};
    verify.structSize = sizeof verify;
    verify.allRows = 1;
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &verify, &report, nullptr),
              VKATTN_OK);
    EXPECT_TRUE(report.passed) << "row " << report.worstIndex[2] << ": got " << report.worstGot << ", expected " << report.worstExpected;
}

TEST(Descriptors, aPoolThatIsTooSmallIsMadeAnew) {
    fault = {};
    fault.hidePushDescriptors = true;
    ledger.reset();
    RuntimeOptions options;
    options.allowFallback = false;
    options.selfTest = 0;
    options.getInstanceProcAddr = faultyGetInstanceProcAddr;
    // Compiles soon
    options.tuning = "vkattn-tuning 1\nflash maxDim=512 dimLanes=2 rowLanes=2 rowsPerLane=1 keysPerLane=1\n";
    {
        const auto runtime = Runtime::open(options, nullptr, nullptr);
        ASSERT_TRUE(runtime);
        uint32_t sets = 0, descriptors = 0;
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH}) {
            Case c;
            c.name = "descriptors";
            c.batch = 1, c.heads = c.kvHeads = 2, c.queryTokens = 9, c.keyTokens = 11, c.headDim = c.valueDim = 8;
            c.lse = kernel == VKATTN_KERNEL_FLASH;
            c.kernel = kernel;
            Random random = randomFor(c.name);
            const auto in = makeCaseData(c, random);
            const RunResult result = runtime->run(in->problem, in->operands);
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            for (const std::string &error : ledger.errors) ADD_FAILURE() << error << " with " << result.kernel;
            if (kernel == VKATTN_KERNEL_STAGED) {
                sets = ledger.setsTaken, descriptors = ledger.descriptorsTaken;
                continue;
            }
            EXPECT_TRUE(ledger.setsTaken <= sets && ledger.descriptorsTaken > descriptors)
                << "a pool of " << sets << " sets and " << descriptors << " descriptors was large enough for " << ledger.setsTaken
                << " and " << ledger.descriptorsTaken << ": this test proves nothing";
        }
    }
    EXPECT_EQ(ledger.leaks(), "");
    ledger.reset();
    fault = {};
}
