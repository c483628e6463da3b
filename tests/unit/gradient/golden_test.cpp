// The golden cases of gradients, by the oracle and by the CPU's kernel, judged by the verifier too.
#include "support/golden_gradient.hpp"
#include "vkattn/cpu.h"

using namespace vkattn::test;

namespace {

void compute(GoldenGradient &c, bool oracle) {
    const vkattn_operation o = c.operation();
    const std::vector<vkattn_operand_memory> memory = c.memory();
    const auto count = static_cast<uint32_t>(memory.size());
    vkattn_diagnostic why{};
    if (oracle) {
        ASSERT_EQ(vkattnCpuOracleOperation(&o, memory.data(), count, &why), VKATTN_OK) << why.message;
    } else {
        uint64_t bytes = 0;
        ASSERT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, &why), VKATTN_OK) << why.message;
        std::vector<unsigned char> workspace(bytes);
        ASSERT_EQ(vkattnCpuRunOperation(nullptr, &o, memory.data(), count, workspace.data(), bytes, &why), VKATTN_OK) << why.message;
    }
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerifyOperation(&o, memory.data(), count, nullptr, &report, &why), VKATTN_OK) << why.message;
    EXPECT_TRUE(report.passed) << "role " << report.worstRole << " got " << report.worstGot << " expected " << report.worstExpected;
}

} // namespace

TEST(GradientGolden, areTheCpusResults) {
    for (const bool options : {false, true})
        for (const bool oracle : {true, false}) {
            GoldenGradient c(options);
            compute(c, oracle);
            c.expectResults();
        }
}
