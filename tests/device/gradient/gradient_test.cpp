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

// Every hook of a backward pass beside all that only this kernel computes, in one chunk and with each
// row by itself.
TEST(Gradient, ofHooksIsWithinTheBoundsOfTheOracle) {
    RuntimeOptions small = optionsFor(Limits::full);
    small.maxWorkspaceBytes = 1;
    std::string why;
    const std::unique_ptr<Runtime> ofRows = Runtime::open(small, nullptr, &why);
    ASSERT_TRUE(ofRows) << why;
    Runtime *const whole = runtimeFor(Limits::full);
    ASSERT_TRUE(whole);
    Random random = randomFor("gradients of hooks");
    Case forward;
    forward.heads = 4, forward.queryTokens = 7, forward.keyTokens = 37;
    forward.sinks = forward.alibi = true;
    forward.softcap = 3;
    forward.biasBroadcast = 0;
    for (const Hooks hooks : {Hooks::score, Hooks::both, Hooks::probability, Hooks::all})
        for (const double dropout : {0.0, 0.3}) {
            forward.hooks = hooks;
            const GradientOptions options{.dLse = true,
                                          .dWeights = true,
                                          .weightsDropped = dropout > 0,
                                          .dBias = true,
                                          .arrays = true,
                                          .dScale = true,
                                          .dropout = dropout,
                                          .kernel = VKATTN_GRADIENT_STAGED};
            GradientCase c(forward, options, random), again(forward, options, random);
            EXPECT_EQ(runAndVerify(*whole, c), "") << c.text();
            EXPECT_EQ(runAndVerify(*ofRows, again), "") << "rows alone: " << again.text();
        }
}

TEST(Gradient, isCutToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, {10, 150}, VKATTN_GRADIENT_STAGED);
}

TEST(Gradient, needsNoMoreThanVulkan10Guarantees) {
    expectDrawnCasesPass(Limits::weak, {10, 150}, VKATTN_GRADIENT_STAGED);
}
