// Gradients of linear attention on the device: drawn cases against the oracle, run twice for the same bits; every
// length around the ends of chunks, in both forms; spans; many features; what nothing may look at.
#include "conform/linear/linear_gradient_case.hpp"
#include "device/linear/linear_on_device.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

#define SKIP_WITHOUT_BUFFERS()                                                                                                             \
    if (!hasBuffersPerStage(6)) GTEST_SKIP() << "the device has fewer than the 6 storage buffers a stage that these gradients need"

// Whether a second run leaves other bits.
std::string runTwiceAndVerify(Runtime &runtime, LinearGradientCase &c) {
    LinearGradientCase again = c;
    if (std::string wrong = runAndVerify(runtime, c); !wrong.empty()) return wrong;
    const RunResult result = runtime.run(again.operation(), again.operands());
    if (result.status != VKATTN_OK) return "the second run: " + result.message;
    return c.sameOutputs(again) ? "" : "a second run has other bits";
}

void expectDrawnCasesPass(Runtime &runtime, const char *name, const Draws &draws, bool tight) {
    test::expectDrawnCasesPass(
        name, draws, tight, [](Random &random) { return drawLinearGradient(random); },
        [&](LinearGradientCase &c) { return runTwiceAndVerify(runtime, c); }, [](int all) { return 3 * all / 4 + 4; });
}

LinearGradientCase caseOf(Random &random, vkattn_linear_rule rule, uint32_t tokens) {
    return drawLinearGradient(random, {.rule = rule, .tokens = tokens, .drawLayouts = false, .spoils = false});
}

LinearCase packedCase(Random &random, vkattn_linear_rule rule, const Sizes &s) {
    return test::packedCase(rule, s, random, false);
}

// Value dims are no multiple of a vector.
LinearGradientCase withNaNInTheLastRow(Random &random, vkattn_linear_rule rule) {
    LinearGradientCase c = gradientsOf(packedCase(random, rule, {1, 1, 25, 8, 5}), random, true);
    c.forward.tensors.at(VKATTN_Q).set(0, 0, 24, 3, std::numeric_limits<float>::quiet_NaN());
    for (uint32_t d = 0; d < 5; ++d) c.tensors.at(VKATTN_D_OUT).set(0, 0, 24, d, std::numeric_limits<float>::quiet_NaN());
    return c;
}

constexpr const auto &rules = linearRules;

} // namespace

TEST(LinearGradientOnDevice, drawnCasesAreThoseOfTheOracle) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "gradients of linear attention", {30, 300}, false);
}

// All heads of a batch entry share one binding of the workspace, so that of the cases 57 of 100 are over these limits.
TEST(LinearGradientOnDevice, drawnCasesMeetTightLimits) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "gradients of linear attention under tight limits", {30, 150}, true);
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

// A NaN of a late row reaches no other row and no other column, and neither do ends of rows that no whole vector or
// block fills.
TEST(LinearGradientOnDevice, aRowThatIsNotFiniteKeepsToItself) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("rows of dOut that are not finite");
    for (const vkattn_linear_rule rule : rules) {
        LinearGradientCase c = withNaNInTheLastRow(random, rule);
        EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
    }
}

// Rows of the last chunk that are not there have queries of 0, and 0 * infinity is NaN: none of it reaches the values of others.
TEST(LinearGradientOnDevice, anInfiniteKeyBesideRowsThatAreNotThere) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("infinite keys of gradients of linear attention");
    for (const vkattn_linear_rule rule : rules) {
        LinearGradientCase c = gradientsOf(packedCase(random, rule, {1, 1, 63, 12, 5}), random, true);
        c.forward.tensors.at(VKATTN_K).set(0, 0, 60, 3, std::numeric_limits<float>::infinity());
        EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
    }
}

// Elements of the state that blocks have and the state has not stay 0 beside an infinite value: 0 * infinity is NaN.
TEST(LinearGradientOnDevice, infinityReachesItsOwnColumnAsInfinity) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("infinite values of gradients of linear attention");
    LinearCase forward = packedCase(random, VKATTN_LINEAR_PLAIN, {1, 1, 40, 3, 5});
    LinearGradientCase c = gradientsOf(forward, random, true);
    for (uint32_t t = 0; t < 40; ++t)
        for (uint32_t d = 0; d < 3; ++d) {
            c.forward.tensors.at(VKATTN_Q).set(0, 0, t, d, 1.0f);
            c.forward.tensors.at(VKATTN_K).set(0, 0, t, d, 1.0f);
        }
    c.tensors.at(VKATTN_D_OUT).set(0, 0, 30, 4, std::numeric_limits<float>::infinity());
    EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
    for (uint32_t t = 0; t < 40; ++t)
        for (uint32_t d = 0; d < 5; ++d) {
            const float x = c.tensors.at(VKATTN_D_V).get(0, 0, t, d);
            EXPECT_EQ(std::isinf(x), t <= 30 && d == 4) << t << ", " << d << ": " << x;
        }
}

// More chunks than a small workspace takes: the states before spans are kept, and no bit is another.
TEST(LinearGradientOnDevice, spansChangeNoBit) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    RuntimeOptions options = optionsFor(Limits::full);
    options.maxWorkspaceBytes = 1u << 16;
    OpenStatus status{};
    std::string message;
    const std::unique_ptr<Runtime> small = Runtime::open(options, &status, &message);
    ASSERT_TRUE(small) << message;
    Random random = randomFor("spans of gradients of linear attention");
    for (const vkattn_linear_rule rule : rules) {
        LinearGradientCase whole = gradientsOf(packedCase(random, rule, {1, 1, 600, 8, 8}), random, true), cut = whole;
        vkattn_explanation explanation{};
        ASSERT_EQ(explain(runtime->device()->caps, cut.operation(), explanation, planOptions(options.maxWorkspaceBytes)), VKATTN_OK);
        EXPECT_GT(explanation.chunkCount, 2u);
        EXPECT_EQ(runAndVerify(*runtime, whole), "") << whole.text();
        EXPECT_EQ(runAndVerify(*small, cut), "") << cut.text();
        EXPECT_TRUE(whole.sameOutputs(cut)) << whole.text();
    }
}

// More features, and more columns, than a block has.
TEST(LinearGradientOnDevice, manyBlocks) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("blocks of gradients of linear attention");
    for (const vkattn_linear_rule rule : {VKATTN_LINEAR_PLAIN, VKATTN_LINEAR_GATED, VKATTN_LINEAR_GATED_DELTA}) {
        LinearGradientCase c = gradientsOf(packedCase(random, rule, {1, 1, 20, 70, 90}), random, true);
        EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
    }
    LinearCase favor = packedCase(random, VKATTN_LINEAR_FEATURES, {1, 1, 20, 12, 40});
    favor.linear.features = VKATTN_FEATURES_FAVOR;
    favor.linear.omega = packed(VKATTN_F32, 1, 1, 100, 12);
    favor.linear.stateIn = favor.linear.stateOut = {};
    favor.tensors.clear();
    favor.fill(random);
    LinearGradientCase c = gradientsOf(favor, random, true);
    EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
}
