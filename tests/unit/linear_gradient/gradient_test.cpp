// Gradients of linear attention on the CPU: drawn cases against the oracle, on each instruction set and any number of
// threads; the verifier against planted errors.
#include "cpu/targets.hpp"

#include "conform/linear/linear_gradient_case.hpp"
#include "unit/cpu/cpu_runs.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/targets.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

void expectRight(LinearGradientCase &drawn, int n) {
    LinearGradientCase one = drawn, exact = drawn;
    run(one, static_cast<uint32_t>(n % 2));
    EXPECT_EQ(one.wrong(drawn), "") << n << " " << one.text();
    LinearGradientCase more = drawn;
    run(more, 2 + static_cast<uint32_t>(n % 3));
    EXPECT_TRUE(one.sameOutputs(more)) << "threads: " << one.text();
    runOracle(exact);
    EXPECT_EQ(exact.wrong(drawn), "") << "oracle: " << exact.text();
}

// Multiplies what a role holds.
void multiply(LinearCase &c, vkattn_role role, float factor) {
    const vkattn_layout &l = c.layout(role);
    HostTensor &tensor = c.tensors.at(role);
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) tensor.set(b, h, t, d, factor * tensor.get(b, h, t, d));
}

} // namespace

// Each of the processor's instruction sets.
class LinearGradientKernelsOf : public ::testing::TestWithParam<int64_t> {
  protected:
    void SetUp() override {
        hwy::SetSupportedTargetsForTest(GetParam());
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
    void TearDown() override {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().DeInit();
    }
};

TEST_P(LinearGradientKernelsOf, agreeWithTheOracle) {
    Random random = randomFor("gradients of linear attention of a target");
    for (int n = 0; n < 40; ++n) {
        LinearGradientCase c = drawLinearGradient(random);
        expectRight(c, n);
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, LinearGradientKernelsOf, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto &target) { return std::string(hwy::TargetName(target.param)); });

TEST(LinearGradientKernels, agreeWithTheOracleOnDrawnCases) {
    Random random = randomFor("gradients of linear attention");
    for (int n = 0; n < 200; ++n) {
        LinearGradientCase c = drawLinearGradient(random);
        expectRight(c, n);
    }
}

// Lengths around those at which a segment of states begins.
TEST(LinearGradientKernels, agreeAtEveryLength) {
    Random random = randomFor("gradients of linear attention by length");
    for (const uint32_t tokens : {1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 63u, 64u, 65u, 130u, 500u})
        for (int rule = VKATTN_LINEAR_FEATURES; rule <= VKATTN_LINEAR_GATED_DELTA; ++rule) {
            LinearGradientCase c =
                drawLinearGradient(random, {.rule = static_cast<vkattn_linear_rule>(rule), .tokens = tokens, .spoils = false});
            LinearGradientCase got = c;
            run(got, 0);
            EXPECT_EQ(got.wrong(c), "") << got.text();
        }
}

// Keys far from norm 1 make the gradients of a delta rule grow; exponents of features leave the range of floats.
TEST(LinearGradientKernels, holdTheirBoundsOfLargeNumbers) {
    Random random = randomFor("gradients of linear attention of large numbers");
    for (int n = 0; n < 60; ++n) {
        LinearCase forward = drawLinear(random, {.drawLayouts = false, .spoils = false});
        const float factor = n % 3 == 0 ? 4.0f : n % 3 == 1 ? 12.0f : 40.0f;
        multiply(forward, VKATTN_K, factor);
        if (forward.linear.q.extent[0]) multiply(forward, VKATTN_Q, factor);
        LinearGradientCase c = gradientsOf(forward, random, true), got = c;
        run(got, 0);
        EXPECT_EQ(got.wrong(c), "") << factor << " " << got.text();
    }
}

// The rows of a batch entry are taken back from the last to the first, in the same memory, whose ends no row fills: what
// is not finite in a late row reaches no dq of an early one.
TEST(LinearGradientKernels, aRowThatIsNotFiniteKeepsToItself) {
    Random random = randomFor("rows of dOut that are not finite");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int n = 0; n < 60; ++n) {
        LinearGradientCase c = drawLinearGradient(random, {.drawLayouts = false, .spoils = false});
        const vkattn_layout &dOut = c.gradient.dOut;
        if (dOut.extent[0] == 0 || dOut.extent[2] == 0) continue;
        const uint32_t last = dOut.extent[2] - 1;
        for (uint32_t d = 0; d < dOut.extent[3]; ++d) c.tensors.at(VKATTN_D_OUT).set(0, 0, last, d, nan);
        c.forward.tensors.at(VKATTN_Q).set(0, 0, last, 0, nan);
        expectRight(c, n);
    }
}

// An element that is off by a little more than its neighbours explain. By more where much nearly cancels: a gradient of a decay sums
// up the products of all elements of two states, those of FAVOR all features where few keys are seen, and of relu a row may share
// almost no feature with the keys that the row sees, so that its normaliser is almost 0.
TEST(LinearGradientVerify, findsPlantedErrors) {
    Random random = randomFor("planted errors of gradients of linear attention");
    int planted = 0;
    for (int n = 0; n < 150; ++n) {
        LinearGradientCase c = drawLinearGradient(random, {.spoils = false}), got = c;
        run(got, 0);
        const Element e = drawElement(
            random, got.outputs(), [&](vkattn_role role) { return got.layout(role).extent; }, [&](const Element &) { return true; });
        if (e.role == VKATTN_ROLE_LIMIT) continue;
        HostTensor &t = got.tensors.at(e.role);
        const float was = t.get(e.at[0], e.at[1], e.at[2], e.at[3]);
        const bool cancels = e.role == VKATTN_D_DECAY || c.forward.linear.features != VKATTN_FEATURES_ELU1;
        const float share = cancels ? 4.0f : t.layout.dtype != VKATTN_F32 ? 0.1f : 0.05f;
        float size = std::max(std::abs(was), 1.0f);
        const uint32_t *extent = t.layout.extent;
        for (uint32_t token = 0; token < extent[2] && e.role == VKATTN_D_DECAY; ++token)
            size = std::max(size, std::abs(t.get(e.at[0], e.at[1], token, e.at[3])));
        t.set(e.at[0], e.at[1], e.at[2], e.at[3], was + share * size);
        EXPECT_NE(got.wrong(c), "") << "role " << e.role << " was " << was << ": " << got.text();
        ++planted;
    }
    EXPECT_GT(planted, 100);
}
