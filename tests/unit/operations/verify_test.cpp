// The verifier of operations sees each planted error, and lets rounding pass.
#include "unit/cpu/cpu_runs.hpp"
#include "vkattn/vkattn.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Runs the operation on inputs that `change` has spoiled, and compares with the unspoiled ones.
vkattn_verify_report afterChange(const OperationCase &whole, const std::function<void(OperationCase &)> &change) {
    OperationCase before = whole, spoiled = whole;
    change(spoiled);
    run(spoiled, 1);
    OperationCase after = whole;
    for (const vkattn_role role : after.outputs()) after.tensor(role) = spoiled.tensor(role);
    return verified(after, before);
}

void zero(HostTensor &t) {
    for (uint32_t r = 0; r < t.layout.extent[2]; ++r)
        for (uint32_t d = 0; d < t.layout.extent[3]; ++d) t.set(0, 0, r, d, 0.0f);
}

void swapElements(HostTensor &t, uint32_t row, uint32_t a, uint32_t b) {
    const float first = t.get(0, 0, row, a), second = t.get(0, 0, row, b);
    ASSERT_NE(first, second);
    t.set(0, 0, row, a, second);
    t.set(0, 0, row, b, first);
}

OperationCase wholeProjection(vkattn_dtype type, Random &random) {
    OperationCase c = plainProjection(20, 1000, 60);
    c.projection.bias = packed(type, 1, 1, 1, 60);
    c.projection.residual = packed(type, 1, 1, 20, 60);
    c.projection.x.dtype = c.projection.w.dtype = c.projection.y.dtype = type;
    c.fill(random);
    // What the tests take away or exchange is far above the roundings of sums of 1000.
    HostTensor &x = c.tensor(VKATTN_X), &w = c.tensor(VKATTN_W), &bias = c.tensor(VKATTN_BIAS);
    x.set(0, 0, 0, 998, -2), x.set(0, 0, 0, 999, 2);
    w.set(0, 0, 30, 10, 2), w.set(0, 0, 30, 20, -2), w.set(0, 0, 59, 999, 2);
    bias.set(0, 0, 0, 0, 3), bias.set(0, 0, 0, 59, -3);
    return c;
}

OperationCase wholeNorm(vkattn_norm_kind kind, Random &random) {
    OperationCase c = plainNorm(kind, 6, 300);
    c.norm.residual = c.norm.sum = c.norm.x;
    c.norm.gamma = c.norm.beta = packed(VKATTN_F32, 1, 1, 1, 300);
    c.fill(random);
    return c;
}

} // namespace

TEST(VerifyOperation, seesOneWrongElement) {
    Random random = randomFor("one element");
    for (int n = 0; n < 160; ++n) {
        OperationCase before = drawOperation(random, otherKind(n));
        OperationCase after = before;
        run(after, 1);
        const std::vector<vkattn_role> outputs = after.outputs();
        const vkattn_role role = outputs[between(random, 0, static_cast<uint32_t>(outputs.size()) - 1)];
        HostTensor &y = after.output(role);
        const uint32_t *e = y.layout.extent;
        if (e[2] == 0 || e[3] == 0) continue; // no element
        const uint32_t at[4] = {between(random, 0, e[0] - 1), between(random, 0, e[1] - 1), between(random, 0, e[2] - 1),
                                between(random, 0, e[3] - 1)};
        if (!after.writes(role, at[0], at[1], at[2])) continue;
        const float right = y.layout.dtype == VKATTN_BITS32 ? 0 : y.get(at[0], at[1], at[2], at[3]);
        if (std::isnan(right)) continue; // a row of a merge whose log-sum-exp is no number
        const bool ofWords = before.kind == VKATTN_ADVANCE || before.kind == VKATTN_KEEP;
        const uint32_t rightWord = ofWords ? y.getWord(at[0], at[1], at[2], at[3]) : 0;
        for (const bool nan : {false, true}) {
            if (ofWords) // off by one, either way
                y.setWord(at[0], at[1], at[2], at[3], nan ? rightWord + 1 : rightWord - 1);
            else
                y.set(at[0], at[1], at[2], at[3], nan ? std::numeric_limits<float>::quiet_NaN() : right + 0.5f + std::abs(right) / 16);
            const vkattn_verify_report report = verified(after, before);
            EXPECT_FALSE(report.passed) << after.text();
            EXPECT_EQ(report.worstRole, role);
            // Of rows with scales, the elements that share the scale change too.
            for (int d = 0; d < (hasScales(y.layout.dtype) ? 3 : 4); ++d) EXPECT_EQ(report.worstIndex[d], at[d]) << after.text();
        }
    }
}

TEST(VerifyOperation, seesWhatAProjectionForgets) {
    Random random = randomFor("projection forgets");
    for (const vkattn_dtype type : {VKATTN_F32, VKATTN_F16, VKATTN_BF16}) {
        const OperationCase whole = wholeProjection(type, random);
        EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { zero(c.tensor(VKATTN_BIAS)); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { zero(c.tensor(VKATTN_RESIDUAL)); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.tensor(VKATTN_W).set(0, 0, 59, 999, 0.0f); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { swapElements(c.tensor(VKATTN_W), 30, 10, 20); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { swapElements(c.tensor(VKATTN_X), 0, 998, 999); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { swapElements(c.tensor(VKATTN_BIAS), 0, 0, 59); }).passed);
    }
}

// The bound follows the row: large rows loosen nothing for small ones.
TEST(VerifyOperation, aLargeRowHidesNoErrorInASmallOne) {
    Random random = randomFor("large row");
    OperationCase before = plainProjection(2, 100, 5);
    before.fill(random);
    for (uint32_t k = 0; k < 100; ++k) before.tensor(VKATTN_X).set(0, 0, 0, k, 1e20f * before.tensor(VKATTN_X).get(0, 0, 0, k));
    OperationCase after = before;
    run(after, 1);
    EXPECT_TRUE(verified(after, before).passed);
    after.tensor(VKATTN_Y).set(0, 0, 1, 3, after.tensor(VKATTN_Y).get(0, 0, 1, 3) + 1e-3f);
    EXPECT_FALSE(verified(after, before).passed);
}

TEST(VerifyOperation, seesWhatANormForgets) {
    Random random = randomFor("norm forgets");
    for (const vkattn_norm_kind kind : {VKATTN_LAYER_NORM, VKATTN_RMS_NORM}) {
        const OperationCase whole = wholeNorm(kind, random);
        EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { zero(c.tensor(VKATTN_BETA)); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { zero(c.tensor(VKATTN_RESIDUAL)); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { swapElements(c.tensor(VKATTN_GAMMA), 0, 3, 4); }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.norm.epsilon = 0.01f; }).passed);
        EXPECT_FALSE(afterChange(whole, [](OperationCase &c) {
                         c.norm.kind = c.norm.kind == VKATTN_LAYER_NORM ? VKATTN_RMS_NORM : VKATTN_LAYER_NORM;
                     }).passed);
        OperationCase before = whole, after = whole;
        run(after, 1);
        HostTensor &sum = after.tensor(VKATTN_SUM);
        sum.set(0, 0, 5, 299, std::nextafter(sum.get(0, 0, 5, 299), 10.0f));
        const vkattn_verify_report report = verified(after, before);
        EXPECT_FALSE(report.passed);
        EXPECT_EQ(report.worstRole, VKATTN_SUM);
    }
}

TEST(VerifyOperation, seesAWrongRotation) {
    Random random = randomFor("rotation wrong");
    OperationCase whole = plainRotary(VKATTN_PAIRS_HALF, 9, 24, 16, 30);
    whole.rotary.start = 4;
    whole.fill(random);
    EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.rotary.start = 5; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.rotary.flags = VKATTN_ROTARY_INVERSE; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.rotary.pairs = VKATTN_PAIRS_INTERLEAVED; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { swapElements(c.tensor(VKATTN_X), 8, 22, 23); }).passed);
}

TEST(VerifyOperation, seesAMisplacedToken) {
    Random random = randomFor("token misplaced");
    OperationCase whole = plainAppend(3, 10, 5);
    whole.append.start = 2;
    whole.fill(random);
    EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.append.start = 3; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { swapElements(c.tensor(VKATTN_X), 2, 3, 4); }).passed);
}

TEST(VerifyOperation, seesAWrongWord) {
    Random random = randomFor("word wrong");
    OperationCase whole = plainAdvance(40);
    whole.advance.by = 2, whole.advance.limit = 50;
    whole.fill(random);
    for (uint32_t n = 0; n < 40; ++n) whole.tensor(VKATTN_X).setWord(0, 0, 0, n, 2 * n);
    EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.advance.by = 1; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.advance.limit = 51; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.advance.limit = 0xffffffffu; }).passed);
    // Neighbours that fp32 cannot tell apart.
    OperationCase large = plainAdvance(1);
    large.fill(random);
    large.tensor(VKATTN_X).setWord(0, 0, 0, 0, 0xfffffff0u);
    const vkattn_verify_report report = afterChange(large, [](OperationCase &c) { c.tensor(VKATTN_X).setWord(0, 0, 0, 0, 0xffffffefu); });
    EXPECT_FALSE(report.passed);
    EXPECT_EQ(report.worstRole, VKATTN_Y);
    EXPECT_EQ(report.worstGot, 4294967280.0);
    EXPECT_EQ(report.worstExpected, 4294967281.0);
    EXPECT_EQ(report.worstError, 1.0);
    EXPECT_EQ(report.worstBound, 0.0);
}

TEST(VerifyOperation, seesAWrongBit) {
    Random random = randomFor("bit wrong");
    OperationCase whole = plainKeep(2, 3, 40);
    whole.fill(random);
    EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.keep.seed ^= uint64_t{1} << 40; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.keep.offset = 8; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.keep.probability = 0.2; }).passed);
    OperationCase after = whole;
    run(after, 1);
    HostTensor &y = after.tensor(VKATTN_Y);
    y.setWord(0, 1, 2, 1, y.getWord(0, 1, 2, 1) | 1u << 8); // past the last column
    const vkattn_verify_report report = verified(after, whole);
    EXPECT_FALSE(report.passed);
    EXPECT_EQ(report.worstIndex[3], 1u);
}

TEST(VerifyOperation, seesOtherRandomNumbers) {
    Random random = randomFor("dropout wrong");
    OperationCase whole = plainDrop(2, 3, 40);
    whole.fill(random);
    EXPECT_TRUE(afterChange(whole, [](OperationCase &) {}).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.drop.seed ^= uint64_t{1} << 40; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.drop.offset = 8; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.drop.probability = 0.2; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.drop.firstRow = 1; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { c.drop.firstPlane = 1; }).passed);
    EXPECT_FALSE(afterChange(whole, [](OperationCase &c) { zero(c.tensor(VKATTN_RESIDUAL)); }).passed);
}

TEST(VerifyOperation, checksTheWordsThatAreAskedFor) {
    Random random = randomFor("words asked for");
    OperationCase c = plainAdvance(500);
    c.fill(random);
    run(c, 1);
    const vkattn_operation o = c.operation();
    const auto memory = c.operandsAfter(c);
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.rows = 50;
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerifyOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &options, &report, nullptr), VKATTN_OK);
    EXPECT_TRUE(report.passed);
    EXPECT_EQ(report.rowsTotal, 500u);
    EXPECT_GE(report.rowsChecked, 50u);
    EXPECT_LE(report.rowsChecked, 55u);
    uint64_t words = 0;
    for (const uint64_t bin : report.histogram) words += bin;
    EXPECT_EQ(words, report.rowsChecked);
}

// Same signs and equal terms round in one direction: the error grows with the sum.
TEST(VerifyOperation, letsBiasedRoundingPass) {
    Random random = randomFor("biased rounding");
    for (const uint32_t rows : {1u, 20u})
        for (const float value : {0.1f, 0.7f, 1e-3f}) {
            OperationCase c = plainProjection(rows, 9000, 3);
            c.fill(random);
            for (uint32_t k = 0; k < 9000; ++k) {
                for (uint32_t r = 0; r < rows; ++r) c.tensor(VKATTN_X).set(0, 0, r, k, value);
                for (uint32_t n = 0; n < 3; ++n) c.tensor(VKATTN_W).set(0, 0, n, k, value);
            }
            run(c, 1);
            EXPECT_TRUE(verified(c).passed) << rows << " rows of " << value;
        }
}

TEST(VerifyOperation, checksTheRowsThatAreAskedFor) {
    Random random = randomFor("rows asked for");
    OperationCase c = plainNorm(VKATTN_RMS_NORM, 500, 8);
    c.fill(random);
    run(c, 1);
    const vkattn_operation o = c.operation();
    const auto memory = c.operands();
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.rows = 50;
    options.threads = 2;
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerifyOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &options, &report, nullptr), VKATTN_OK);
    EXPECT_TRUE(report.passed);
    EXPECT_EQ(report.rowsTotal, 500u);
    EXPECT_GE(report.rowsChecked, 50u);
    EXPECT_LE(report.rowsChecked, 55u);
    uint64_t elements = 0;
    for (const uint64_t bin : report.histogram) elements += bin;
    EXPECT_EQ(elements, 8 * report.rowsChecked);
    for (const uint32_t edge : {0u, 1u, 250u, 498u, 499u}) {
        const float right = c.tensor(VKATTN_Y).get(0, 0, edge, 7);
        c.tensor(VKATTN_Y).set(0, 0, edge, 7, right + 1);
        ASSERT_EQ(vkattnCpuVerifyOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &options, &report, nullptr), VKATTN_OK);
        EXPECT_FALSE(report.passed) << edge;
        c.tensor(VKATTN_Y).set(0, 0, edge, 7, right);
    }
}
