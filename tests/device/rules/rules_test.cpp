// Rules of visibility on a device: drawn problems, each on a kernel that takes it, against the same problem
// with a full boolean mask that is built apart.
#include "device/environment.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/gradient_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "support/extent.hpp"
#include "support/rule_mask.hpp"

#include <cstdlib>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

TEST(RulesTest, areTheSameProblemWithAFullMask) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const Draws draws{18, 18};
    // The tests that come with a change leave two of three kernels out for each problem.
    const bool everyKernel = fullExtent() || askedProblems() > 0;
    Random random = randomFor("rules on a device");
    uint32_t computed = 0, refused = 0;
    for (int n = 0; draws.take(n); ++n) {
        const uint32_t number = static_cast<uint32_t>(n);
        Case c = drawRules(random, number);
        // Few dims: few pipelines of each kernel.
        c.headDim = c.valueDim = 16;
        for (const vkattn_kernel kernel : KernelList()) {
            if (!everyKernel && kernel != VKATTN_KERNEL_STAGED && number % 3 != static_cast<uint32_t>(kernel) % 3) continue;
            c.kernel = kernel;
            const bool matrices = kernel >= VKATTN_KERNEL_FLASH_COOPMAT;
            c.q = c.k = c.v = c.out = matrices ? VKATTN_F16 : VKATTN_F32;
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const Ran ran = runAndVerify(*runtime, *data);
            if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) {
                EXPECT_NE(kernel, VKATTN_KERNEL_STAGED) << ran.result.message;
                ++refused;
                continue;
            }
            ++computed;
            ASSERT_EQ(ran.wrong, "") << caseText(c);
            const MaskedProblem masked(*data);
            vkattn_verify_options options{};
            options.structSize = sizeof options;
            options.allRows = 1;
            options.probabilityUnit = ran.result.probabilityUnit;
            options.probabilityFloor = ran.result.probabilityFloor;
            vkattn_verify_report report{};
            vkattn_diagnostic why{};
            ASSERT_EQ(vkattnCpuVerify(&masked.problem, masked.operands.data(), static_cast<uint32_t>(masked.operands.size()), &options,
                                      &report, &why),
                      VKATTN_OK)
                << why.message;
            ASSERT_TRUE(report.passed) << caseText(c) << ": " << report.worstGot << ", expected " << report.worstExpected;
        }
    }
    std::printf("%u problems computed, %u that a kernel does not take\n", computed, refused);
}

// Deterministic results have the bits of the same problem with a full mask, by which no kernel skips anything.
TEST(RulesTest, deterministicBitsDoNotDependOnSkipping) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("deterministic rules");
    const Draws draws{6, 24};
    const uint32_t first = static_cast<uint32_t>(random() % 18);
    uint32_t compared = 0;
    for (int number = 0; draws.take(number); ++number) {
        Case c = drawRules(random, first + static_cast<uint32_t>(number));
        c.headDim = c.valueDim = 16;
        c.deterministic = true, c.slices = 0;
        for (const vkattn_kernel kernel : KernelList()) {
            c.kernel = kernel;
            const bool matrices = kernel >= VKATTN_KERNEL_FLASH_COOPMAT;
            c.q = c.k = c.v = c.out = matrices ? VKATTN_F16 : VKATTN_F32;
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const RunResult skipping = runtime->run(data->problem, data->operands);
            if (skipping.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(skipping.status, VKATTN_OK) << skipping.message << caseText(c);
            const Outputs expected = data->outputs();
            const MaskedProblem masked(*data);
            const RunResult whole = runtime->run(masked.problem, masked.operands);
            if (whole.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(whole.status, VKATTN_OK) << whole.message << caseText(c);
            ++compared;
            EXPECT_EQ(std::memcmp(expected.out.data(), data->out.data(), data->out.bytes()), 0) << skipping.kernel << ": " << caseText(c);
        }
    }
    EXPECT_GT(compared, 0u);
    std::printf("%u deterministic results compared with those of a full mask\n", compared);
}

// What tiles skip is nothing that a row sees, in the forward pass, the backward pass and statistics.
TEST(RulesTest, skipNothingThatIsSeen) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("long rules");
    for (uint32_t number = 0; number < longRuleCases; ++number) {
        const Case c = longRules(random, number);
        for (const vkattn_kernel kernel : KernelList()) {
            Case own = c;
            own.kernel = kernel;
            if (kernel >= VKATTN_KERNEL_FLASH_COOPMAT) own.q = own.k = own.v = own.out = VKATTN_F16;
            const std::unique_ptr<CaseData> data = makeCaseData(own, random);
            const Ran ran = runAndVerify(*runtime, *data);
            if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(ran.wrong, "") << caseText(own);
        }
        for (const vkattn_gradient_kernel kernel : {VKATTN_GRADIENT_STAGED, VKATTN_GRADIENT_TILES, VKATTN_GRADIENT_COOPMAT}) {
            Case own = c;
            GradientOptions options;
            options.everything = kernel != VKATTN_GRADIENT_COOPMAT;
            options.matrices = kernel == VKATTN_GRADIENT_COOPMAT;
            options.weighingHooks = kernel != VKATTN_GRADIENT_COOPMAT;
            GradientCase before = drawGradient(random, own, options);
            before.gradient.kernel = kernel;
            before.data->collectOperands();
            const RunResult forward = runtime->run(before.data->problem, before.data->operands);
            ASSERT_EQ(forward.status, VKATTN_OK) << forward.message << caseText(own);
            GradientCase after = before;
            const RunResult result = runtime->run(after.operation(), after.operands());
            if (result.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(result.status, VKATTN_OK) << result.message << caseText(own);
            ASSERT_EQ(after.wrong(before, std::max(forward.probabilityUnit, result.probabilityUnit),
                                  std::max(forward.probabilityFloor, result.probabilityFloor)),
                      "")
                << caseText(own) << before.text();
        }
        StatisticsOptions options;
        options.spoils = false;
        const StatisticsCase before = drawStatistics(random, c, options);
        StatisticsCase after = before;
        const RunResult result = runtime->run(after.operation(), after.operands());
        ASSERT_EQ(result.status, VKATTN_OK) << result.message << caseText(c);
        ASSERT_EQ(after.wrong(before), "") << caseText(c);
    }
}

} // namespace
