// Statistics of heads whose numbers are known, by the oracle and by the vector kernels.
#include "small_head.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float near = 2e-6f;

// The columns of a row, in their order.
void expectRow(const SmallHead &head, uint32_t i, const float (&expected)[VKATTN_STATISTIC_COUNT]) {
    for (uint32_t column = 0; column < VKATTN_STATISTIC_COUNT; ++column)
        EXPECT_NEAR(head.at(i, static_cast<vkattn_statistic>(column)), expected[column], near * (1 + std::abs(expected[column])))
            << "row " << i << " column " << column;
}
void expectTop(const SmallHead &head, uint32_t i, const std::vector<uint32_t> &keys, const std::vector<float> &weights) {
    for (uint32_t t = 0; t < head.top; ++t) {
        EXPECT_EQ(head.topKeys[i * head.top + t], keys[t]) << "row " << i << " rank " << t;
        EXPECT_NEAR(head.topWeights[i * head.top + t], weights[t], near) << "row " << i << " rank " << t;
    }
}
void expectReceived(const SmallHead &head, const std::vector<float> &expected) {
    for (uint32_t j = 0; j < head.keys; ++j) EXPECT_NEAR(head.received[j], expected[j], near) << "key " << j;
}
void expectNothing(const SmallHead &head, uint32_t i) {
    expectRow(head, i, {0, 0, -1, 0, 0, 0, 0, 0, -1, 0, 0, 0});
    expectTop(head, i, {noKey, noKey, noKey}, {0, 0, 0});
}
void expectUndefined(const SmallHead &head, uint32_t i) {
    for (uint32_t column = 0; column < VKATTN_STATISTIC_COUNT; ++column)
        EXPECT_TRUE(std::isnan(head.at(i, static_cast<vkattn_statistic>(column)))) << "row " << i << " column " << column;
    for (uint32_t t = 0; t < head.top; ++t) {
        EXPECT_TRUE(std::isnan(head.topWeights[i * head.top + t])) << i;
        EXPECT_EQ(head.topKeys[i * head.top + t], noKey) << i;
    }
}

float ln(double x) {
    return static_cast<float>(std::log(x));
}

} // namespace

// true: the oracle.
class StatisticsPatterns : public ::testing::TestWithParam<bool> {
  protected:
    void run(SmallHead &head) const { head.run(GetParam()); }
};

TEST_P(StatisticsPatterns, identity) {
    SmallHead head(5, 5, [](uint32_t i, uint32_t j) { return i == j ? 1.0 : 0.0; });
    head.threshold = 0.5f;
    run(head);
    for (uint32_t i = 0; i < 5; ++i) {
        expectRow(head, i, {0, 1, static_cast<float>(i), 0, 1, i == 0 ? 1.0f : 0.0f, 1, 1, -1, 0, 0, 1});
        expectTop(head, i, {i, noKey, noKey}, {1, 0, 0});
    }
    expectReceived(head, {0.2f, 0.2f, 0.2f, 0.2f, 0.2f});
}

TEST_P(StatisticsPatterns, uniform) {
    SmallHead head(4, 4, [](uint32_t, uint32_t) { return 1.0; });
    for (const float threshold : {0.0f, 0.2f, 0.3f}) {
        head.threshold = threshold;
        run(head);
        const float density = threshold == 0.2f ? 1.0f : 0.0f;
        expectRow(head, 0, {ln(4), 0.25f, 0, 1.5f, 0.25f, 0.25f, 0.25f, 4, 0.25f, 1.5f, 3.5f, density});
        expectRow(head, 1, {ln(4), 0.25f, 0, 1, 0.25f, 0.25f, 0.25f, 4, 0.25f, 0.5f, 1.5f, density});
        expectRow(head, 3, {ln(4), 0.25f, 0, 1.5f, 0.25f, 0.25f, 0.25f, 4, 0.25f, -1.5f, 3.5f, density});
        expectTop(head, 2, {0, 1, 2}, {0.25f, 0.25f, 0.25f});
        expectReceived(head, {0.25f, 0.25f, 0.25f, 0.25f});
    }
}

TEST_P(StatisticsPatterns, causalUniform) {
    SmallHead head(4, 4, [](uint32_t i, uint32_t j) { return j <= i ? 1.0 : 0.0; });
    run(head);
    expectRow(head, 0, {0, 1, 0, 0, 1, 1, 1, 1, -1, 0, 0, 0});
    expectRow(head, 1, {ln(2), 0.5f, 0, 0.5f, 0.5f, 0.5f, 0.5f, 2, 0.5f, -0.5f, 0.5f, 0});
    expectRow(head, 3, {ln(4), 0.25f, 0, 1.5f, 0.25f, 0.25f, 0.25f, 4, 0.25f, -1.5f, 3.5f, 0});
    expectTop(head, 1, {0, 1, noKey}, {0.5f, 0.5f, 0});
    expectReceived(head, {25.0f / 48, 13.0f / 48, 7.0f / 48, 3.0f / 48});
}

TEST_P(StatisticsPatterns, banded) {
    SmallHead head(5, 5, [](uint32_t i, uint32_t j) { return i <= j + 1 && j <= i + 1 ? 1.0 : 0.0; });
    run(head);
    constexpr float third = 1.0f / 3;
    expectRow(head, 0, {ln(2), 0.5f, 0, 0.5f, 0.5f, 0.5f, 0.5f, 2, 0.5f, 0.5f, 0.5f, 0});
    expectRow(head, 1, {ln(3), third, 0, 2 * third, third, third, third, 3, third, 0, 2 * third, 0});
    expectRow(head, 3, {ln(3), third, 2, 2 * third, third, 0, third, 3, third, 0, 2 * third, 0});
    expectReceived(head, {1.0f / 6, 7.0f / 30, 0.2f, 7.0f / 30, 1.0f / 6});
}

TEST_P(StatisticsPatterns, oneKeyHasAll) {
    SmallHead head(4, 4, [](uint32_t, uint32_t j) { return j == 2 ? 1e80 : 1.0; });
    for (uint32_t i = 0; i < 4; ++i) head.bias[i * 4 + 2] = 200;
    run(head);
    expectRow(head, 0, {0, 1, 2, 2, 0, 0, 1, 4, 0, 2, 4, 0});
    expectRow(head, 1, {0, 1, 2, 1, 0, 0, 1, 4, 0.5f, 1, 1, 0});
    expectRow(head, 2, {0, 1, 2, 0, 1, 0, 1, 4, 0, 0, 0, 0});
    // Of keys whose weights underflow, the lowest of equal scores comes first.
    for (uint32_t i = 0; i < 4; ++i) expectTop(head, i, {2, 0, 1}, {1, 0, 0});
    expectReceived(head, {0, 0, 1, 0});
}

TEST_P(StatisticsPatterns, twoBlocks) {
    SmallHead head(4, 4, [](uint32_t i, uint32_t j) { return i / 2 == j / 2 ? 1.0 : 0.0; });
    run(head);
    expectRow(head, 1, {ln(2), 0.5f, 0, 0.5f, 0.5f, 0.5f, 0.5f, 2, 0.5f, -0.5f, 0.5f, 0});
    expectRow(head, 2, {ln(2), 0.5f, 2, 0.5f, 0.5f, 0, 0.5f, 2, 0.5f, 0.5f, 0.5f, 0});
    expectReceived(head, {0.25f, 0.25f, 0.25f, 0.25f});
}

TEST_P(StatisticsPatterns, unequalWeights) {
    // 1, 2, 3, 2 of 8.
    SmallHead head(1, 4, [](uint32_t, uint32_t j) { return j == 0 ? 1.0 : j == 2 ? 3.0 : 2.0; });
    head.threshold = 0.2f;
    run(head); // i' = 3
    const double entropy = std::log(8.0) - (3 * std::log(3.0) + 4 * std::log(2.0)) / 8;
    expectRow(head, 0,
              {static_cast<float>(entropy), 0.375f, 2, 10.0f / 8, 0.25f, 0.125f, 18.0f / 64, 4, 0.375f, -10.0f / 8, 20.0f / 8, 0.75f});
    expectTop(head, 0, {2, 1, 3}, {0.375f, 0.25f, 0.25f});
    expectReceived(head, {0.125f, 0.25f, 0.375f, 0.25f});
}

TEST_P(StatisticsPatterns, positionsOutsideOfTheKeys) {
    SmallHead more(4, 2, [](uint32_t, uint32_t) { return 1.0; }); // i' = -2, -1, 0, 1
    run(more);
    expectRow(more, 0, {ln(2), 0.5f, 0, 2.5f, 0, 0.5f, 0.5f, 2, -1, 2.5f, 6.5f, 0});
    expectRow(more, 1, {ln(2), 0.5f, 0, 1.5f, 0, 0.5f, 0.5f, 2, 0.5f, 1.5f, 2.5f, 0});
    more.topLeft = true; // i' = i
    run(more);
    expectRow(more, 2, {ln(2), 0.5f, 0, 1.5f, 0, 0.5f, 0.5f, 2, 0.5f, -1.5f, 2.5f, 0});
    expectRow(more, 3, {ln(2), 0.5f, 0, 2.5f, 0, 0.5f, 0.5f, 2, -1, -2.5f, 6.5f, 0});
    SmallHead fewer(1, 3, [](uint32_t, uint32_t) { return 1.0; }); // i' = 2
    run(fewer);
    EXPECT_NEAR(fewer.at(0, VKATTN_STATISTIC_SIGNED_DISTANCE), -1, near);
}

TEST_P(StatisticsPatterns, rowsThatSeeNothing) {
    SmallHead head(4, 4, [](uint32_t i, uint32_t) { return i == 1 || i == 2 ? 0.0 : 1.0; });
    run(head);
    expectNothing(head, 1);
    expectNothing(head, 2);
    expectReceived(head, {0.25f, 0.25f, 0.25f, 0.25f}); // the mean of the two rows that see a key
    SmallHead blind(3, 2, [](uint32_t, uint32_t) { return 0.0; });
    run(blind);
    for (uint32_t i = 0; i < 3; ++i) expectNothing(blind, i);
    expectReceived(blind, {0, 0});
}

TEST_P(StatisticsPatterns, noKeysOrNoQueries) {
    SmallHead noKeys(3, 0, [](uint32_t, uint32_t) { return 1.0; });
    run(noKeys);
    for (uint32_t i = 0; i < 3; ++i) expectNothing(noKeys, i);
    SmallHead noQueries(0, 3, [](uint32_t, uint32_t) { return 1.0; });
    run(noQueries);
    expectReceived(noQueries, {0, 0, 0});
}

TEST_P(StatisticsPatterns, aScoreThatIsNoNumberOrInfinite) {
    for (const float spoiled : {notANumber, infinity}) {
        SmallHead head(4, 4, [](uint32_t i, uint32_t j) { return i == 2 || j != 1 ? 1.0 : 0.0; }); // row 2 sees key 1
        head.bias[2 * 4 + 3] = -infinity;                                                          // and not key 3
        head.k[1] = spoiled;
        std::fill(head.q.begin(), head.q.end(), 1.0f);
        run(head);
        expectUndefined(head, 2);
        for (const uint32_t i : {0u, 1u, 3u}) EXPECT_NEAR(head.at(i, VKATTN_STATISTIC_ENTROPY), ln(3), near) << i;
        for (const uint32_t j : {0u, 1u, 2u}) EXPECT_TRUE(std::isnan(head.received[j])) << j;
        EXPECT_NEAR(head.received[3], 0.25f, near) << "row 2 does not see key 3";
    }
}

TEST_P(StatisticsPatterns, scoresOfMinusInfinityAreVisible) {
    SmallHead head(2, 3, [](uint32_t, uint32_t) { return 1.0; });
    std::fill(head.q.begin(), head.q.end(), 1.0f);
    head.k[0] = -infinity;
    head.threshold = 0.4f;
    run(head); // i' = 1, 2
    expectRow(head, 0, {ln(2), 0.5f, 1, 0.5f, 0.5f, 0, 0.5f, 3, 0.25f, 0.5f, 0.5f, 2.0f / 3});
    expectTop(head, 0, {1, 2, noKey}, {0.5f, 0.5f, 0});
    expectReceived(head, {0, 0.5f, 0.5f});
    std::fill(head.k.begin(), head.k.end(), -infinity);
    head.bias[3 + 2] = -infinity; // hidden from row 1
    run(head);
    expectUndefined(head, 0);
    expectUndefined(head, 1);
    for (uint32_t j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(head.received[j])) << j;
}

TEST_P(StatisticsPatterns, manyKeys) {
    constexpr uint32_t n = 1000; // more than one tile
    SmallHead head(70, n, [](uint32_t, uint32_t) { return 1.0; });
    run(head);
    for (const uint32_t i : {0u, 31u, 32u, 69u}) {
        EXPECT_NEAR(head.at(i, VKATTN_STATISTIC_ENTROPY), ln(n), 1e-5f);
        EXPECT_EQ(head.at(i, VKATTN_STATISTIC_LARGEST_KEY), 0.0f);
        EXPECT_EQ(head.at(i, VKATTN_STATISTIC_VISIBLE), static_cast<float>(n));
        expectTop(head, i, {0, 1, 2}, {1.0f / n, 1.0f / n, 1.0f / n});
    }
    expectReceived(head, std::vector<float>(n, 1.0f / n));
}

// Keys of more than one block, with scores that rise: every block has a higher maximum.
TEST_P(StatisticsPatterns, risingScores) {
    constexpr uint32_t n = 2500;
    constexpr double rise = 0.03;
    SmallHead head(3, n, [](uint32_t, uint32_t j) { return std::exp(rise * j - 40); });
    head.threshold = 0.01f;
    run(head);
    double sum = 0, squares = 0, entropy = 0, signedDistance = 0, dense = 0;
    const auto weight = [](uint32_t j) { return std::exp(rise * (static_cast<double>(j) - n + 1)); };
    for (uint32_t j = 0; j < n; ++j) sum += weight(j);
    for (uint32_t j = 0; j < n; ++j) {
        const double p = weight(j) / sum;
        squares += p * p;
        entropy -= p * std::log(p);
        signedDistance += p * (static_cast<double>(j) - (n - 1)); // of the last row: i' = n - 1
        dense += p > static_cast<double>(head.threshold);
    }
    const auto expect = [&](vkattn_statistic column, double expected, double share) {
        EXPECT_NEAR(static_cast<double>(head.at(2, column)), expected, share * std::abs(expected)) << column;
    };
    expect(VKATTN_STATISTIC_ENTROPY, entropy, 1e-5);
    expect(VKATTN_STATISTIC_LARGEST, 1 / sum, 1e-5);
    expect(VKATTN_STATISTIC_SQUARES, squares, 2e-5);
    expect(VKATTN_STATISTIC_SIGNED_DISTANCE, signedDistance, 2e-5);
    expect(VKATTN_STATISTIC_DISTANCE, -signedDistance, 2e-5);
    expect(VKATTN_STATISTIC_DENSITY, dense / n, 1e-6);
    expect(VKATTN_STATISTIC_DIAGONAL, 1 / sum, 1e-5);
    expect(VKATTN_STATISTIC_FIRST, weight(0) / sum, 1e-5);
    expect(VKATTN_STATISTIC_LOCALITY, weight(n - 2) / sum, 1e-5);
    expectTop(head, 2, {n - 1, n - 2, n - 3},
              {static_cast<float>(1 / sum), static_cast<float>(weight(n - 2) / sum), static_cast<float>(weight(n - 3) / sum)});
    for (const uint32_t j : {1000u, 1100u, 2100u, n - 1})
        EXPECT_NEAR(static_cast<double>(head.received[j]), weight(j) / sum, 1e-5 * weight(j) / sum) << j;
}

TEST_P(StatisticsPatterns, blocksOfKeysThatHaveNoWeight) {
    constexpr uint32_t n = 2500, silent = 1200;
    SmallHead head(2, n, [](uint32_t i, uint32_t j) { return i == 1 && j >= silent ? 0.0 : 1.0; });
    std::fill(head.q.begin(), head.q.end(), 1.0f);
    std::fill(head.k.begin(), head.k.begin() + silent, -infinity);
    run(head); // row 0 sees -infinity first; row 1 nothing else
    EXPECT_NEAR(head.at(0, VKATTN_STATISTIC_ENTROPY), ln(n - silent), 1e-5f);
    EXPECT_EQ(head.at(0, VKATTN_STATISTIC_LARGEST_KEY), static_cast<float>(silent));
    EXPECT_EQ(head.at(0, VKATTN_STATISTIC_VISIBLE), static_cast<float>(n));
    expectUndefined(head, 1);
    for (const uint32_t j : {0u, 1023u, 1024u, silent - 1}) EXPECT_TRUE(std::isnan(head.received[j])) << j;
    for (const uint32_t j : {silent, 2047u, 2048u, n - 1}) EXPECT_NEAR(head.received[j], 0.5f / (n - silent), 1e-9f) << j;

    // A row whose last block spoils what the blocks before have.
    SmallHead spoiled(2, n, [](uint32_t i, uint32_t j) { return i == 1 && j == n - 1 ? 0.0 : 1.0; });
    std::fill(spoiled.q.begin(), spoiled.q.end(), 1.0f);
    spoiled.k[n - 1] = notANumber;
    run(spoiled);
    expectUndefined(spoiled, 0);
    EXPECT_NEAR(spoiled.at(1, VKATTN_STATISTIC_ENTROPY), ln(n - 1), 1e-5f);
    for (const uint32_t j : {0u, 1024u, n - 1}) EXPECT_TRUE(std::isnan(spoiled.received[j])) << j;

    // The first block is hidden.
    SmallHead hidden(2, n, [](uint32_t i, uint32_t j) { return i == 0 && j < silent ? 0.0 : 1.0; });
    run(hidden);
    EXPECT_NEAR(hidden.at(0, VKATTN_STATISTIC_ENTROPY), ln(n - silent), 1e-5f);
    EXPECT_EQ(hidden.at(0, VKATTN_STATISTIC_VISIBLE), static_cast<float>(n - silent));
    expectTop(hidden, 0, {silent, silent + 1, silent + 2}, std::vector<float>(3, 1.0f / (n - silent)));
    EXPECT_NEAR(hidden.received[5], 0.5f / n, 1e-9f);
}

INSTANTIATE_TEST_SUITE_P(, StatisticsPatterns, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool> &each) { return each.param ? "oracle" : "kernels"; });
