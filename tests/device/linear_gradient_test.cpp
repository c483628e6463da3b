// Gradients of linear attention on the device: drawn cases against the oracle, run twice for the same bits; every
// length around the ends of chunks, in both forms; spans; many features; what nothing may look at.
#include "conform/linear/linear_gradient_case.hpp"
#include "device/environment.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

bool takesGradients() {
    const DeviceInfo *device = bench().device();
    return device && device->caps.maxStorageBuffersPerStage >= 6;
}
#define SKIP_WITHOUT_BUFFERS()                                                                                                             \
    if (!takesGradients()) GTEST_SKIP() << "the device has fewer than the 6 storage buffers a stage that these gradients need"

// Returns what is wrong; the results are in the case.
std::string runAndVerify(Runtime &runtime, LinearGradientCase &c) {
    LinearGradientCase before = c;
    const RunResult result = runtime.run(c.operation(), c.operands());
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    if (!result.fallbackReason.empty()) return "the CPU computed: " + result.fallbackReason;
    return c.wrong(before);
}

// Whether a second run leaves other bits.
std::string runTwiceAndVerify(Runtime &runtime, LinearGradientCase &c) {
    LinearGradientCase again = c;
    if (std::string wrong = runAndVerify(runtime, c); !wrong.empty()) return wrong;
    const RunResult result = runtime.run(again.operation(), again.operands());
    if (result.status != VKATTN_OK) return "the second run: " + result.message;
    return c.sameOutputs(again) ? "" : "a second run has other bits";
}

void expectDrawnCasesPass(Runtime &runtime, const char *name, const Draws &draws, bool tight) {
    Random random = randomFor(name);
    int refused = 0, all = 0;
    for (int n = 0; draws.take(n); ++n) {
        LinearGradientCase c = drawLinearGradient(random);
        const std::string wrong = runTwiceAndVerify(runtime, c);
        ++all;
        if (tight && wrong.rfind("status -2", 0) == 0)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << c.text();
    }
    EXPECT_LT(refused, all / 2 + 4);
    std::printf("%d drawn cases, %d over the limits\n", all, refused);
}

LinearGradientCase caseOf(Random &random, vkattn_linear_rule rule, uint32_t tokens) {
    return drawLinearGradient(random, {.rule = rule, .tokens = tokens, .drawLayouts = false, .spoils = false});
}

constexpr vkattn_linear_rule rules[] = {VKATTN_LINEAR_FEATURES, VKATTN_LINEAR_PLAIN, VKATTN_LINEAR_GATED, VKATTN_LINEAR_DELTA,
                                        VKATTN_LINEAR_GATED_DELTA};

} // namespace

TEST(LinearGradientOnDevice, drawnCasesAreThoseOfTheOracle) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "gradients of linear attention", {30, 300}, false);
}

TEST(LinearGradientOnDevice, drawnCasesMeetTightLimits) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "gradients of linear attention under tight limits", {12, 150}, true);
}

// Lengths around the ends of chunks, in both forms.
TEST(LinearGradientOnDevice, everyLengthAndForm) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("lengths of gradients of linear attention");
    for (const vkattn_linear_rule rule : rules)
        for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED})
            for (const uint32_t tokens : {1u, 2u, 7u, 8u, 9u, 64u, 130u}) {
                LinearGradientCase c = caseOf(random, rule, tokens);
                c.forward.linear.form = form;
                EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
            }
}
