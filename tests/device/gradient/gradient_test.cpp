// The backward pass on the device: drawn cases against the oracle, with gaps that are canaries in
// outputs, and NaN in whatever no pair may read.
#include "device/environment.hpp"
#include "device/gradient/gradient_case.hpp"
#include "support/extent.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

void expectDrawnCasesPass(Limits limits, int count, vkattn_gradient_kernel kernel) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor("gradients");
    int refused = 0;
    for (int n = 0; n < count; ++n) {
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
    EXPECT_LT(refused, count / 3);
    std::printf("%d drawn gradients, %d over the limits\n", count, refused);
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
    expectDrawnCasesPass(Limits::full, fullExtent() ? 300 : 30, VKATTN_GRADIENT_STAGED);
}

TEST(Gradient, isCutToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, fullExtent() ? 150 : 20, VKATTN_GRADIENT_STAGED);
}

TEST(Gradient, needsNoMoreThanVulkan10Guarantees) {
    expectDrawnCasesPass(Limits::weak, fullExtent() ? 150 : 20, VKATTN_GRADIENT_STAGED);
}
