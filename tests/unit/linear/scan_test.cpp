// Linear attention on the CPU: drawn cases against the oracle, on each instruction set and any number of threads; the
// verifier against planted errors.
#include "cpu/targets.hpp"

#include "conform/linear/linear_case.hpp"
#include "support/extent.hpp"
#include "unit/cpu/cpu_runs.hpp"
#include "unit/linear/small_scan.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

void expectRight(LinearCase &drawn, int n) {
    LinearCase one = drawn, exact = drawn;
    run(one, static_cast<uint32_t>(n % 2));
    EXPECT_EQ(one.wrong(drawn), "") << n << " " << one.text();
    LinearCase more = drawn;
    run(more, 2 + static_cast<uint32_t>(n % 3));
    EXPECT_TRUE(one.sameOutputs(more)) << "threads: " << one.text();
    runOracle(exact);
    EXPECT_EQ(exact.wrong(drawn), "") << "oracle: " << exact.text();
}

// Multiplies what a role holds.
void multiply(LinearCase &c, vkattn_role role, float factor) {
    const vkattn_layout &l = c.layout(role);
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) {
                    HostTensor &tensor = c.tensors.at(role);
                    tensor.set(b, h, t, d, factor * tensor.get(b, h, t, d));
                }
}

} // namespace

// Each of the processor's instruction sets.
class LinearKernelsOf : public ::testing::TestWithParam<int64_t> {
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

TEST_P(LinearKernelsOf, agreeWithTheOracle) {
    Random random = randomFor("linear attention of a target");
    for (int n = 0; n < 60; ++n) {
        LinearCase c = drawLinear(random);
        expectRight(c, n);
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, LinearKernelsOf, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto &target) { return std::string(hwy::TargetName(target.param)); });

TEST(LinearScan, agreesWithTheOracleOnDrawnCases) {
    Random random = randomFor("linear attention");
    for (int n = 0; n < 300; ++n) {
        LinearCase c = drawLinear(random);
        expectRight(c, n);
    }
}

TEST(LinearScan, agreesAtEveryLengthWithBothForms) {
    Random random = randomFor("linear attention by length");
    for (const uint32_t tokens : {1u, 2u, 63u, 64u, 65u, 130u, 256u, 1000u})
        for (int rule = VKATTN_LINEAR_FEATURES; rule <= VKATTN_LINEAR_GATED_DELTA; ++rule) {
            LinearCase c = drawLinear(random, {.rule = static_cast<vkattn_linear_rule>(rule), .tokens = tokens, .spoils = false});
            for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED}) {
                c.linear.form = form;
                LinearCase got = c;
                run(got, 0);
                EXPECT_EQ(got.wrong(c), "") << got.text();
            }
        }
}

// Keys far from norm 1 make a delta rule's state grow; exponents of features leave the range of floats.
TEST(LinearScan, holdsItsBoundsOfLargeNumbers) {
    Random random = randomFor("linear attention of large numbers");
    for (int n = 0; n < 90; ++n) {
        LinearCase c = drawLinear(random, {.drawLayouts = false, .spoils = false});
        const float factor = n % 3 == 0 ? 4.0f : n % 3 == 1 ? 12.0f : 40.0f;
        multiply(c, VKATTN_K, factor);
        if (c.linear.q.extent[0]) multiply(c, VKATTN_Q, factor);
        LinearCase got = c;
        run(got, 0);
        EXPECT_EQ(got.wrong(c), "") << factor << " " << got.text();
    }
}

// An element that is off by a little more than its neighbours explain.
TEST(LinearVerify, findsPlantedErrors) {
    Random random = randomFor("planted errors of linear attention");
    int planted = 0;
    for (int n = 0; n < 200; ++n) {
        LinearCase c = drawLinear(random, {.spoils = false}), got = c;
        run(got, 0);
        const Element e = drawElement(
            random, got.outputs(), [&](vkattn_role role) { return got.layout(role).extent; },
            [&](const Element &element) { return element.role == VKATTN_OUT || got.keys(element.at[0]) > 0; });
        if (e.role == VKATTN_ROLE_LIMIT) continue;
        HostTensor &t = got.output(e.role);
        const float was = t.get(e.at[0], e.at[1], e.at[2], e.at[3]);
        const bool narrow = t.layout.dtype != VKATTN_F32;
        t.set(e.at[0], e.at[1], e.at[2], e.at[3], was + std::max(std::abs(was), 1.0f) * (narrow ? 0.1f : 0.05f));
        EXPECT_NE(got.wrong(c), "") << "role " << e.role << " was " << was << ": " << got.text();
        ++planted;
    }
    EXPECT_GT(planted, 100);
}

// Equal terms, as those of a stride of 0, are rounded to one side: the maximum that fp32 makes of 64
// of them is right, one that is off by more is not.
TEST(LinearVerify, takesMaximaWhoseTermsAreRoundedToOneSide) {
    constexpr uint32_t dims = 64;
    constexpr float key = 2, scale = 0.125f;
    const float root = std::sqrt(scale);
    double worst = 0;
    for (int n = 0; n < 64; ++n) {
        const float weight = 1.6f + 0.003f * static_cast<float>(n);
        SmallScan scan(VKATTN_LINEAR_FEATURES, 1, 1, dims, 1);
        scan.linear.features = VKATTN_FEATURES_FAVOR;
        scan.linear.flags = VKATTN_CAUSAL | VKATTN_SCALE;
        scan.linear.scale = scale;
        scan.add(VKATTN_OMEGA, 1, 1, 1, dims);
        scan.add(VKATTN_STATE_OUT, 1, 1, scan.stateRows(), scan.stateColumns());
        for (uint32_t d = 0; d < dims; ++d) scan[VKATTN_K][d] = key, scan[VKATTN_Q][d] = 0.1f, scan[VKATTN_OMEGA][d] = weight;
        scan[VKATTN_V][0] = 1;
        scan.run();
        float dot = 0;
        for (uint32_t d = 0; d < dims; ++d) dot = std::fma(key, weight, dot);
        const double product = dims * std::sqrt(static_cast<double>(scale)) * key * weight, halfSquare = dims * 0.5 * scale * key * key;
        const double exact = product - halfSquare, terms = product + halfSquare;
        float &maximum = scan[VKATTN_STATE_OUT][2];
        maximum = root * dot - 0.5f * scale * key * key * dims;
        EXPECT_EQ(scan.wrong(), "") << weight;
        worst = std::max(worst, std::abs(maximum - exact) / (1e-5 + 4 * 0x1p-24 * terms));
        maximum = static_cast<float>(exact + 100 * 0x1p-24 * terms + 2e-5);
        EXPECT_NE(scan.wrong(), "") << weight;
    }
    EXPECT_GT(worst, 1) << "no sum was rounded to one side";
}

// A NaN stays in its batch entry and head, and before its token nothing knows of it, bit for bit.
TEST(LinearScan, knowsNothingOfLaterTokens) {
    Random random = randomFor("later tokens");
    for (int n = 0; n < 60; ++n) {
        LinearCase c = drawLinear(random, {.tokens = 70, .drawLayouts = false, .spoils = false});
        vkattn_linear_attention &l = c.linear;
        if (l.out.extent[2] == 0 || l.presentRoles || (l.rule == VKATTN_LINEAR_FEATURES && !(l.flags & VKATTN_CAUSAL))) continue;
        const uint32_t token = between(random, 0, 69);
        const int64_t shift = l.flags & VKATTN_ALIGN_TOP_LEFT ? 0 : 70 - int64_t{l.q.extent[2]};
        LinearCase spoiled = c, clean = c;
        for (const vkattn_role role : {VKATTN_K, VKATTN_V})
            for (uint32_t d = 0; d < c.layout(role).extent[3]; ++d)
                spoiled.tensors.at(role).set(0, 0, token, d, d % 2 ? std::numeric_limits<float>::infinity() : std::nanf(""));
        run(clean, 0);
        run(spoiled, 0);
        bool reached = false;
        for (uint32_t h = 0; h < l.out.extent[1]; ++h)
            for (uint32_t i = 0; i < l.out.extent[2]; ++i)
                for (uint32_t d = 0; d < l.out.extent[3]; ++d) {
                    const float a = clean.output(VKATTN_OUT).get(0, h, i, d), b = spoiled.output(VKATTN_OUT).get(0, h, i, d);
                    if (i + shift < token)
                        ASSERT_EQ(std::memcmp(&a, &b, 4), 0) << h << " " << i << " " << d << ": " << c.text();
                    else
                        reached = reached || !std::isfinite(b);
                }
        EXPECT_TRUE(reached || l.out.extent[2] + shift <= token) << c.text();
        for (uint32_t b = 1; b < l.out.extent[0]; ++b)
            for (uint32_t h = 0; h < l.out.extent[1]; ++h)
                for (uint32_t i = 0; i < l.out.extent[2]; ++i)
                    ASSERT_EQ(clean.output(VKATTN_OUT).get(b, h, i, 0), spoiled.output(VKATTN_OUT).get(b, h, i, 0)) << c.text();
    }
}
