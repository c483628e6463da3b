// Heads whose figures follow by hand.
#include "heads.hpp"

#include "analysis/classes.hpp"
#include "analysis/flow.hpp"
#include "analysis/pooling.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vkattn::test {
namespace {

using namespace analysis;

constexpr double tiny = 1e-12;

HeadClass classOf(const HeadMeasures &measures) {
    return classify(classFigures(measures.overRows));
}

TEST(AnalysisPattern, identity) {
    const HeadMeasures m = measureHead(identityHead(8));
    EXPECT_EQ(m.overRows.rows, 8u);
    EXPECT_EQ(m.overRows.empty, 0u);
    for (size_t i = 0; i < 8; i++) {
        EXPECT_EQ(m.rows[i].entropy, 0);
        EXPECT_FALSE(std::signbit(m.rows[i].entropy));
        EXPECT_EQ(m.rows[i].largest, 1);
        EXPECT_EQ(m.rows[i].largestKey, static_cast<int64_t>(i));
        EXPECT_EQ(m.rows[i].diagonal, 1);
        EXPECT_EQ(m.rows[i].distance, 0);
        EXPECT_EQ(m.rows[i].firstToken, i == 0 ? 1 : 0);
        EXPECT_EQ(m.rows[i].visible, 1u);
        EXPECT_EQ(m.pairs.received[i], 1.0 / 8);
    }
    EXPECT_EQ(m.overRows.normalizedEntropy.count, 0u); // one visible key each
    EXPECT_EQ(m.overRows.locality.count, 0u);          // no visible neighbour
    EXPECT_EQ(m.overRows.effectiveRange.mean, 1);
    EXPECT_NEAR(m.pairs.mutualInformation, std::log(8), tiny); // a permutation
    EXPECT_EQ(m.pairs.reach, 0);
    EXPECT_EQ(m.pairs.keysForMass.mean, 1);
    EXPECT_EQ(classOf(m), HeadClass::diagonal);
}

TEST(AnalysisPattern, uniform) {
    const size_t n = 16;
    const HeadMeasures m = measureHead(uniformHead(n));
    EXPECT_NEAR(m.overRows.entropy.mean, std::log(16), tiny);
    EXPECT_NEAR(m.overRows.entropy.deviation, 0, tiny);
    EXPECT_NEAR(m.overRows.normalizedEntropy.mean, 1, tiny);
    EXPECT_NEAR(m.overRows.effectiveRange.mean, 16, 1e-9);
    EXPECT_NEAR(m.overRows.effectiveKeys.mean, 16, 1e-9);
    EXPECT_NEAR(m.overRows.diagonal.mean, 1.0 / 16, tiny);
    EXPECT_NEAR(m.overRows.locality.mean, 1.0 / 16, tiny);
    EXPECT_EQ(m.rows[5].largestKey, 0); // the lowest of all
    EXPECT_NEAR(m.pairs.mutualInformation, 0, tiny);
    // Row i has sum_j |j - i| / n = (i (i + 1) + (n - 1 - i) (n - i)) / (2 n); their mean is (n^2 - 1) / (3 n).
    EXPECT_NEAR(m.rows[3].distance, (3 * 4 + 12 * 13) / 32.0, tiny);
    EXPECT_NEAR(m.overRows.distance.mean, 255 / 48.0, tiny);
    EXPECT_NEAR(m.rows[3].signedDistance, 7.5 - 3, tiny);
    EXPECT_NEAR(m.rows[3].distanceDeviation, std::sqrt(255 / 12.0), tiny); // of 16 neighbouring numbers
    // h(r) = 2 (n - r) / n^2 for r above 0. Beyond r there is (n - r) (n - r - 1) / n^2: 2 / 256 beyond 14.
    EXPECT_EQ(m.pairs.distanceHistogram.size(), 16u);
    EXPECT_NEAR(m.pairs.distanceHistogram[0], 1.0 / 16, tiny);
    EXPECT_NEAR(m.pairs.distanceHistogram[5], 22 / 256.0, tiny);
    EXPECT_EQ(m.pairs.reach, 14);
    EXPECT_EQ(m.pairs.density, 0); // 1 / 16 is below 0.1: an absolute figure
    EXPECT_NEAR(m.pairs.topMass.mean, 5 / 16.0, tiny);
    EXPECT_EQ(m.pairs.keysForMass.mean, 15); // 14.4 of 16
    EXPECT_EQ(classOf(m), HeadClass::global);
}

TEST(AnalysisPattern, causalUniform) {
    for (const size_t n : {8u, 64u}) {
        const HeadMeasures m = measureHead(causalUniformHead(n));
        EXPECT_EQ(m.rows[0].visible, 1u);
        EXPECT_EQ(m.overRows.normalizedEntropy.count, n - 1);
        EXPECT_NEAR(m.overRows.normalizedEntropy.mean, 1, tiny); // uniform over what is visible
        // ln(n!) / n, against ln n: 0.64 at 8 and 0.77 at 64.
        EXPECT_NEAR(m.overRows.entropy.mean, std::lgamma(static_cast<double>(n) + 1) / static_cast<double>(n), 1e-9);
        EXPECT_NEAR(m.overRows.entropy.mean / std::log(n), n == 8 ? 0.64 : 0.77, 0.005);
        EXPECT_EQ(m.rows[n - 1].visible, n);
        EXPECT_NEAR(m.rows[n - 1].signedDistance, -(static_cast<double>(n) - 1) / 2, 1e-9);
    }
    const HeadMeasures m = measureHead(causalUniformHead(8));
    // Row i has 1 / (i + 1) at its one neighbour: (H_8 - 1) / 7.
    EXPECT_EQ(m.overRows.locality.count, 7u);
    EXPECT_NEAR(m.overRows.locality.mean, (761.0 / 280 - 1) / 7, tiny);
    EXPECT_NEAR(m.overRows.firstToken.mean, 761.0 / 280 / 8, tiny);
    EXPECT_NEAR(m.pairs.received[0], 761.0 / 280 / 8, tiny);
    EXPECT_NEAR(m.pairs.received[7], 1.0 / 64, tiny);
    EXPECT_EQ(classOf(m), HeadClass::diagonal); // mean diagonal .34: few keys are few
    EXPECT_EQ(classOf(measureHead(causalUniformHead(64))), HeadClass::global);
}

TEST(AnalysisPattern, banded) {
    const HeadMeasures m = measureHead(bandedHead(10));
    // Ends see two keys, the others three.
    EXPECT_NEAR(m.overRows.visible.mean, 2.8, tiny);
    EXPECT_NEAR(m.overRows.entropy.mean, (2 * std::log(2) + 8 * std::log(3)) / 10, tiny);
    EXPECT_NEAR(m.overRows.locality.mean, (2 * 0.5 + 8 / 3.0) / 10, tiny);
    EXPECT_NEAR(m.overRows.distance.mean, (2 * 0.5 + 8 * 2 / 3.0) / 10, tiny);
    EXPECT_EQ(m.pairs.reach, 1);
    EXPECT_EQ(m.rows[0].neighbours, 1u);
    EXPECT_EQ(m.rows[4].neighbours, 2u);
    EXPECT_NEAR(m.pairs.density, 1, tiny);
    EXPECT_EQ(m.pairs.relativeDensity, 0);      // no key has more than its share
    EXPECT_EQ(classOf(m), HeadClass::diagonal); // .37 on the diagonal
    // Without it the same band is local.
    EXPECT_EQ(classOf(measureHead(headOf(10, 10, [](size_t i, size_t j) { return i == j + 1 || j == i + 1 ? 0.5 : 0; }))),
              HeadClass::local);
}

TEST(AnalysisPattern, oneHot) {
    const HeadMeasures m = measureHead(oneHotHead(8, 2));
    EXPECT_EQ(m.overRows.entropy.greatest, 0);
    EXPECT_EQ(m.overRows.normalizedEntropy.mean, 0);
    EXPECT_EQ(m.overRows.normalizedEntropy.count, 8u);
    EXPECT_EQ(m.rows[6].largestKey, 2);
    EXPECT_EQ(m.rows[6].distance, 4);
    EXPECT_EQ(m.rows[6].signedDistance, -4);
    EXPECT_EQ(m.rows[6].distanceDeviation, 0);
    EXPECT_EQ(m.pairs.received[2], 1);
    EXPECT_EQ(m.pairs.mutualInformation, 0); // all rows are equal
    EXPECT_NEAR(m.overRows.diagonal.mean, 1.0 / 8, tiny);
    EXPECT_NEAR(m.pairs.density, 1.0 / 8, tiny);
    EXPECT_EQ(classOf(m), HeadClass::sparse);
}

TEST(AnalysisPattern, twoBlocks) {
    const HeadMeasures m = measureHead(blocksHead(32));
    EXPECT_NEAR(m.overRows.entropy.mean, std::log(16), tiny);
    EXPECT_NEAR(m.overRows.normalizedEntropy.mean, 1, tiny); // hidden is what has weight 0
    EXPECT_NEAR(m.pairs.mutualInformation, std::log(2), tiny);
    EXPECT_EQ(classOf(m), HeadClass::global);
    HeadWeights seen = blocksHead(32);
    seen.visible.assign(seen.visible.size(), 1);
    const HeadMeasures all = measureHead(seen);
    EXPECT_NEAR(all.overRows.normalizedEntropy.mean, std::log(16) / std::log(32), tiny);
    // Only at the border of the blocks is one neighbour without weight.
    EXPECT_NEAR(all.overRows.locality.mean, (30 / 16.0 + 2 / 32.0) / 32, tiny);
}

TEST(AnalysisPattern, twoKeys) {
    const HeadMeasures m = measureHead(headOf(1, 2, [](size_t, size_t j) { return j == 0 ? 0.75 : 0.25; }));
    const RowMeasures &row = m.rows[0]; // i' = 1
    EXPECT_NEAR(row.entropy, -0.75 * std::log(0.75) - 0.25 * std::log(0.25), tiny);
    EXPECT_EQ(row.largest, 0.75);
    EXPECT_EQ(row.diagonal, 0.25);
    EXPECT_EQ(row.firstToken, 0.75);
    EXPECT_EQ(row.distance, 0.75);
    EXPECT_EQ(row.squares, 0.625);
    EXPECT_EQ(row.neighbourMass, 0.75);
}

TEST(AnalysisPattern, rowsThatSeeNothingAreLeftOut) {
    HeadWeights head = headOf(4, 6, [](size_t i, size_t j) { return i == 1 ? 0 : i == 2 && j == 3 ? NAN : 0.25; });
    const HeadMeasures m = measureHead(head);
    EXPECT_EQ(m.overRows.rows, 4u);
    EXPECT_EQ(m.overRows.empty, 1u);
    EXPECT_EQ(m.overRows.notFinite, 1u);
    EXPECT_EQ(m.overRows.entropy.count, 2u);
    EXPECT_NEAR(m.overRows.entropy.mean, std::log(6), tiny);
    EXPECT_NEAR(m.pairs.received[3], 1.0 / 6, tiny);
    EXPECT_EQ(m.rows[1].largestKey, -1);
    EXPECT_EQ(m.rows[1].entropy, 0);
    EXPECT_EQ(m.rows[2].largestKey, -1);
    EXPECT_EQ(m.rows[2].state, RowState::notFinite);
    EXPECT_NEAR(m.rows[0].sum, 1.5, tiny);
    EXPECT_NEAR(m.rows[0].squares, 1.0 / 6, tiny); // of p, not of the weights
    const HeadMeasures none = measureHead(headOf(2, 3, [](size_t, size_t) { return 0; }));
    EXPECT_EQ(none.overRows.empty, 2u);
    EXPECT_EQ(none.overRows.entropy.mean, 0);
    EXPECT_EQ(none.pairs.received, std::vector<double>(3));
    EXPECT_EQ(none.pairs.reach, 0);
    EXPECT_EQ(measureHead(HeadWeights{}).overRows.rows, 0u);
}

TEST(AnalysisPattern, positionsOutsideTheKeys) {
    // Six queries over two keys: the first stands at -4.
    const HeadMeasures m = measureHead(headOf(6, 2, [](size_t, size_t) { return 0.5; }));
    EXPECT_EQ(m.rows[0].diagonal, 0);
    EXPECT_EQ(m.rows[0].distance, 4.5);
    EXPECT_EQ(m.rows[5].diagonal, 0.5);
    EXPECT_EQ(m.rows[4].diagonal, 0.5);
    EXPECT_EQ(m.pairs.distanceHistogram.size(), 6u);
}

SeedFigures seedFigures(std::span<const HeadWeights> batch) {
    SeedBatch seed;
    for (const HeadWeights &head : batch) seed.add(head);
    return seed.figures();
}

// The classes of notes that take no mask into account.
TEST(AnalysisPattern, seedFigures) {
    const std::vector<HeadWeights> causal = {causalUniformHead(64)};
    const SeedFigures figures = seedFigures(causal);
    double entropy = 0;
    for (size_t i = 0; i < 64; i++) entropy -= std::log(1.0 / static_cast<double>(i + 1) + 1e-8) / 64;
    EXPECT_NEAR(figures.entropy, entropy, 1e-9);
    EXPECT_NE(figures.headClass, HeadClass::global); // .77 ln n
    const HeadMeasures own = measureHead(causal[0]);
    EXPECT_NEAR(figures.locality, own.overRows.locality.mean / 2, tiny); // halved by the mask
    // Of the mean of the batch: two one-hot heads become one of two keys.
    const std::vector<HeadWeights> batch = {oneHotHead(4, 0), oneHotHead(4, 1)};
    EXPECT_NEAR(seedFigures(batch).entropy, std::log(2), 1e-7);
    EXPECT_NEAR(seedFigures(batch).density, 0.5, tiny);
    EXPECT_EQ(seedFigures({}).headClass, HeadClass::sparse);
}

TEST(AnalysisPattern, masks) {
    const HeadWeights head = uniformHead(6);
    const FlowMask causal{FlowMask::Kind::causal}, band{FlowMask::Kind::band, 1}, dilated{FlowMask::Kind::dilated, 4, 2};
    EXPECT_NEAR(keptMass(head, causal), 21 / 36.0, tiny);
    EXPECT_NEAR(keptMass(head, band), 16 / 36.0, tiny);
    EXPECT_NEAR(keptMass(head, dilated), (6 + 2 * 4 + 2 * 2) / 36.0, tiny);
    const HeadMeasures m = measureHead(masked(head, causal));
    EXPECT_NEAR(m.rows[2].entropy, std::log(3), tiny); // renormalised
    EXPECT_EQ(m.rows[2].distance, 1);
    EXPECT_EQ(measureHead(masked(head, band)).pairs.reach, 1);
    EXPECT_EQ(causal.name() + ", " + band.name() + ", " + dilated.name() + ", " + FlowMask{}.name(),
              "causal, band 1, dilated 4 by 2, none");
    // What the mask leaves without weight is empty.
    const HeadMeasures empty = measureHead(masked(oneHotHead(6, 5), causal));
    EXPECT_EQ(empty.overRows.empty, 5u);
}

TEST(AnalysisPattern, largestKeys) {
    HeadWeights head = headOf(2, 6, [](size_t i, size_t j) { return i == 0 ? std::vector<double>{1, 4, 0, 4, 2, 9}[j] : 0; });
    head.visible.assign(12, 1);
    head.visible[5] = 0; // the largest is hidden
    std::vector<double> p(6), weights(4);
    std::vector<int64_t> keys(4);
    largestKeys(normalize(head, 0, p), p, head.visibleOf(0), keys, weights);
    EXPECT_EQ(keys, (std::vector<int64_t>{1, 3, 4, 0})); // of equal weights the lowest key first
    EXPECT_NEAR(weights[1], 4 / 11.0, tiny);
    keys.resize(6), weights.resize(6);
    largestKeys(normalize(head, 0, p), p, head.visibleOf(0), keys, weights);
    EXPECT_EQ(keys, (std::vector<int64_t>{1, 3, 4, 0, 2, -1})); // seen without weight, and nothing
    EXPECT_EQ(weights[4] + weights[5], 0);
    largestKeys(normalize(head, 1, p), p, head.visibleOf(1), keys, weights);
    EXPECT_EQ(keys, std::vector<int64_t>(6, -1)); // an empty row
}

TEST(AnalysisPattern, pooling) {
    HeadWeights head = causalUniformHead(10);
    const PooledWeights whole = pool(head, 10);
    EXPECT_EQ(whole.blockRows, 1u);
    EXPECT_EQ(whole.rows, 10u);
    EXPECT_FLOAT_EQ(whole.largest[10], 0.5f);
    EXPECT_EQ(whole.cells[1], PooledWeights::hidden);
    head.weights(9, 9) = 5;                     // of 5.9
    const PooledWeights pooled = pool(head, 4); // blocks of 3, the last of 1
    EXPECT_EQ(pooled.blockColumns, 3u);
    EXPECT_EQ(pooled.rows, 4u);
    EXPECT_FLOAT_EQ(pooled.largest[0], 1);
    EXPECT_EQ(pooled.cells[1], PooledWeights::hidden);
    EXPECT_EQ(pooled.cells[5], PooledWeights::visible);
    EXPECT_FLOAT_EQ(pooled.largest[15], 5 / 5.9f);
    head.weights(9, 0) = NAN;
    EXPECT_EQ(pool(head, 4).cells[15], PooledWeights::notFinite);
}

} // namespace
} // namespace vkattn::test
