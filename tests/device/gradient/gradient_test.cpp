// The backward pass on the device: drawn cases against the oracle, with gaps that are canaries in
// outputs, and NaN in whatever no pair may read.
#include "device/environment.hpp"
#include "device/gradient/gradient_case.hpp"
#include "support/extent.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

void expectDrawnCasesPass(Limits limits, const Draws &draws, vkattn_gradient_kernel kernel) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor("gradients");
    int refused = 0, n = 0;
    for (; draws.take(n); ++n) {
        const Case forward = randomCase(random, 5);
        GradientOptions options = drawGradientOptions(random);
        options.kernel = kernel;
        GradientCase c(forward, options, random);
        const std::string wrong = runAndVerify(*runtime, c);
        // Rows that are over a tight limit by themselves, as transposed tensors have them.
        if (limits == Limits::tight && wrong.rfind("status -2", 0) == 0)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << c.text();
    }
    EXPECT_LT(refused, n / 3);
    std::printf("%d drawn gradients, %d over the limits\n", n, refused);
}

} // namespace

TEST(Gradient, withoutOptionsIsRight) {
    Random random = randomFor("plain gradients");
    for (const Limits limits : {Limits::full, Limits::tight, Limits::weak}) {
        Runtime *runtime = runtimeFor(limits);
        ASSERT_TRUE(runtime);
        GradientCase c(Case{}, {}, random);
        EXPECT_EQ(runAndVerify(*runtime, c), "") << static_cast<int>(limits);
    }
}

TEST(Gradient, isWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {20, 300}, VKATTN_GRADIENT_STAGED);
}

TEST(Gradient, isCutToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, {10, 150}, VKATTN_GRADIENT_STAGED);
}

TEST(Gradient, needsNoMoreThanVulkan10Guarantees) {
    expectDrawnCasesPass(Limits::weak, {10, 150}, VKATTN_GRADIENT_STAGED);
}
