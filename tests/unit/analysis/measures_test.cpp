// Measures of random heads against plain second formulations, and against what theory says of random
// logits.
#include "heads.hpp"

#include "analysis/geometry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vkattn::test {
namespace {

using namespace analysis;

TEST(Analysis, rowsAsWrittenDown) {
    Random random = randomFor("Analysis.rowsAsWrittenDown");
    for (int run = 0; run < 50; run++) {
        const size_t queries = between(random, 1, 12), keys = between(random, 1, 12);
        HeadWeights head = headOf(queries, keys, [&](size_t, size_t) { return std::exp(3 * normal(random)); });
        for (uint8_t &each : head.visible) each = between(random, 0, 3) != 0;
        head.shift = static_cast<int64_t>(between(random, 0, 20)) - 10;
        const HeadMeasures m = measureHead(head);
        std::vector<double> received(keys);
        double ordinary = 0, entropies = 0;
        for (size_t i = 0; i < queries; i++) {
            double sum = 0;
            for (size_t j = 0; j < keys; j++) sum += head.visible[i * keys + j] ? head.weights(i, j) : 0;
            const RowMeasures &row = m.rows[i];
            if (sum == 0) {
                EXPECT_EQ(row.state, RowState::empty);
                continue;
            }
            ordinary++;
            // -sum p ln p = ln(sum w) - sum p ln w; the variance as a difference of moments.
            double entropy = std::log(sum), distance = 0, first = 0, second = 0, squares = 0, largest = 0;
            for (size_t j = 0; j < keys; j++) {
                if (!head.visible[i * keys + j]) continue;
                const double p = head.weights(i, j) / sum, offset = static_cast<double>(j) - static_cast<double>(head.position(i));
                entropy -= p * std::log(head.weights(i, j));
                distance += p * std::fabs(offset), first += p * offset, second += p * offset * offset;
                squares += p * p, largest = std::max(largest, p);
                received[j] += p;
            }
            entropies += entropy;
            EXPECT_NEAR(row.entropy, entropy, 1e-10);
            EXPECT_NEAR(row.distance, distance, 1e-10);
            EXPECT_NEAR(row.signedDistance, first, 1e-10);
            EXPECT_NEAR(row.distanceDeviation, std::sqrt(std::max(0.0, second - first * first)), 1e-5);
            EXPECT_NEAR(row.squares, squares, 1e-12);
            EXPECT_NEAR(row.largest, largest, 1e-12);
            ASSERT_GE(row.largestKey, 0);
            EXPECT_NEAR(head.weights(i, static_cast<size_t>(row.largestKey)) / sum, largest, 1e-12);
            const int64_t at = head.position(i);
            const bool sees = at >= 0 && at < static_cast<int64_t>(keys) && head.visible[i * keys + static_cast<size_t>(at)];
            EXPECT_NEAR(row.diagonal, sees ? head.weights(i, static_cast<size_t>(at)) / sum : 0, 1e-12);
            EXPECT_NEAR(row.firstToken, head.visible[i * keys] ? head.weights(i, 0) / sum : 0, 1e-12);
        }
        EXPECT_EQ(m.overRows.entropy.count, static_cast<uint64_t>(ordinary));
        if (ordinary == 0) continue;
        double columns = 0, mass = 0;
        for (size_t j = 0; j < keys; j++) {
            EXPECT_NEAR(m.pairs.received[j], received[j] / ordinary, 1e-12);
            columns -= received[j] > 0 ? received[j] / ordinary * std::log(received[j] / ordinary) : 0;
        }
        EXPECT_NEAR(m.pairs.mutualInformation, columns - entropies / ordinary, 1e-10);
        for (const double h : m.pairs.distanceHistogram) mass += h;
        EXPECT_NEAR(mass, 1, 1e-12);
        double beyond = 0;
        for (size_t r = static_cast<size_t>(m.pairs.reach) + 1; r < m.pairs.distanceHistogram.size(); r++)
            beyond += m.pairs.distanceHistogram[r];
        EXPECT_LE(beyond, 0.01);
        if (m.pairs.reach > 0) {
            EXPECT_GT(beyond + m.pairs.distanceHistogram[static_cast<size_t>(m.pairs.reach)], 0.01);
        }
    }
}

// As analysis of random logits has it: mutual information .44, .47, .47, entropy near ln n - 1/2. The
// information of many draws is .430, .462, .480, and one draw deviates from that by .026, .017, .008:
// so many draws that what the figures leave of the bound is seven deviations of their mean.
TEST(Analysis, randomLogits) {
    Random random = randomFor("Analysis.randomLogits");
    for (const auto &[n, expected] : {std::pair{32, 0.44}, {64, 0.47}, {128, 0.47}}) {
        double information = 0, entropy = 0;
        const int draws = 10240 / n;
        for (int run = 0; run < draws; run++) {
            const HeadMeasures m = measureHead(logitsHead(random, static_cast<size_t>(n)));
            information += m.pairs.mutualInformation / draws;
            entropy += m.overRows.entropy.mean / draws;
        }
        EXPECT_NEAR(information, expected, 0.02) << n;
        EXPECT_NEAR(entropy, std::log(n) - 0.5, 0.09) << n; // above by .054 at 32, where few keys have most of the mass
    }
}

TEST(Analysis, spreadOfFewNumbers) {
    Spread spread;
    for (const double value : {4.0, 7.0, 13.0, 16.0}) spread.add(value);
    EXPECT_EQ(spread.count, 4u);
    EXPECT_EQ(spread.mean, 10);
    EXPECT_NEAR(spread.deviation, std::sqrt(22.5), 1e-12);
    EXPECT_EQ(spread.least, 4);
    EXPECT_EQ(spread.greatest, 16);
    EXPECT_NEAR(pointwiseInformation(0.5, 0.25), std::log(2), 1e-12);
    EXPECT_EQ(pointwiseInformation(0, 0.25), -INFINITY);
}

TEST(Analysis, angles) {
    const std::vector<double> a = {1, 0, 0}, b = {1, 1e-5, 0}, c = {-2, 0, 0}, zero = {0, 0, 0}, y = {0, 3, 0};
    EXPECT_EQ(*angle(a, a), 0);
    EXPECT_NEAR(*angle(a, b), 1e-5 * 180 / std::numbers::pi, 1e-12); // an arc cosine in float32 has nothing below 0.028
    EXPECT_NEAR(*angle(a, c), 180, 1e-12);
    EXPECT_NEAR(*angle(a, y), 90, 1e-12);
    EXPECT_EQ(*cosine(a, c), -1);
    EXPECT_FALSE(angle(a, zero));
    EXPECT_FALSE(cosine(zero, a));
    Matrix q(2, 3), k(3, 3);
    q(0, 0) = 3, q(0, 1) = 4, k(1, 0) = 2, k(2, 2) = NAN; // q_1 and k_0 are zero
    const Geometry g = geometry(q, k);
    EXPECT_EQ(g.zeroQueries, 1u);
    EXPECT_EQ(g.zeroKeys, 1u);
    EXPECT_EQ(g.notFiniteKeys, 1u);
    EXPECT_EQ(g.queryNorm.mean, 2.5);
    EXPECT_EQ(g.angle.count, 1u);
    EXPECT_NEAR(g.cosine.mean, 0.6, 1e-12);
    EXPECT_EQ(g.normProduct.mean, 10);
    EXPECT_EQ(g.angleHistogram[26], 1u); // 53.13 degrees
    const std::vector<uint8_t> hidden(6);
    EXPECT_EQ(geometry(q, k, hidden).angle.count, 0u);
}

// N(0, 1) of 64 dims: norm 7.97, angles of 90 +- 7.2 degrees.
TEST(Analysis, geometryOfRandomVectors) {
    Random random = randomFor("Analysis.geometryOfRandomVectors");
    Matrix q(200, 64), k(200, 64);
    for (Matrix *m : {&q, &k})
        for (double &each : m->elements) each = normal(random);
    const Geometry g = geometry(q, k);
    EXPECT_NEAR(g.queryNorm.mean, 7.97, 0.2);
    EXPECT_NEAR(g.angle.mean, 90, 1);
    EXPECT_NEAR(g.angle.deviation, 7.2, 0.4);
    EXPECT_EQ(g.angle.count, 40000u);
}

} // namespace
} // namespace vkattn::test
