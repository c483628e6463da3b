// Orthogonal random features: their geometry, and the variance that the theory predicts of the softmax's kernel.
#include "vkattn/linear.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace {

std::vector<float> features(uint32_t m, uint32_t dims, vkattn_feature_lengths lengths, uint64_t seed, uint32_t head = 0) {
    std::vector<float> omega(size_t{m} * dims);
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnRandomFeatures(m, dims, lengths, seed, head, omega.data(), &why), VKATTN_OK) << why.message;
    return omega;
}

double dot(const float *a, const float *b, uint32_t dims) {
    double sum = 0;
    for (uint32_t d = 0; d < dims; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return sum;
}

// phi(q) . phi(k) of one draw.
double kernel(const std::vector<float> &omega, uint32_t m, const std::vector<float> &q, const std::vector<float> &k, bool hyperbolic) {
    const auto dims = static_cast<uint32_t>(q.size());
    const double norms = dot(q.data(), q.data(), dims) / 2 + dot(k.data(), k.data(), dims) / 2;
    double sum = 0;
    for (uint32_t r = 0; r < m; ++r) {
        const double x = dot(&omega[size_t{r} * dims], q.data(), dims) + dot(&omega[size_t{r} * dims], k.data(), dims);
        sum += std::exp(x - norms) + (hyperbolic ? std::exp(-x - norms) : 0);
    }
    return sum / (hyperbolic ? 2 * m : m);
}

struct Moments {
    double mean, variance;
};
Moments momentsOf(uint32_t m, const std::vector<float> &q, const std::vector<float> &k, bool hyperbolic, uint32_t draws) {
    double sum = 0, squares = 0;
    for (uint32_t n = 0; n < draws; ++n) {
        const double value = kernel(features(m, static_cast<uint32_t>(q.size()), VKATTN_LENGTHS_CHI, 1000 + n), m, q, k, hyperbolic);
        sum += value, squares += value * value;
    }
    const double mean = sum / draws;
    return {mean, squares / draws - mean * mean};
}

} // namespace

TEST(RandomFeatures, areOrthogonalInBlocks) {
    constexpr uint32_t dims = 17, m = 40;
    for (const vkattn_feature_lengths lengths : {VKATTN_LENGTHS_CHI, VKATTN_LENGTHS_ROOT}) {
        const std::vector<float> omega = features(m, dims, lengths, 7);
        for (uint32_t a = 0; a < m; ++a)
            for (uint32_t b = 0; b < a; ++b) {
                const double product = dot(&omega[a * dims], &omega[b * dims], dims);
                if (a / dims == b / dims)
                    EXPECT_NEAR(product, 0, 1e-5) << a << " " << b;
                else
                    EXPECT_GT(std::abs(product), 1e-7) << a << " " << b;
            }
        for (uint32_t a = 0; lengths == VKATTN_LENGTHS_ROOT && a < m; ++a)
            EXPECT_NEAR(dot(&omega[a * dims], &omega[a * dims], dims), dims, 1e-4);
    }
}

TEST(RandomFeatures, followFromSeedHeadAndRow) {
    const std::vector<float> first = features(6, 4, VKATTN_LENGTHS_CHI, 7);
    EXPECT_EQ(first, features(6, 4, VKATTN_LENGTHS_CHI, 7));
    EXPECT_NE(first, features(6, 4, VKATTN_LENGTHS_CHI, 8));
    EXPECT_NE(first, features(6, 4, VKATTN_LENGTHS_CHI, 7, 1));
    // More rows begin with the same ones.
    const std::vector<float> more = features(9, 4, VKATTN_LENGTHS_CHI, 7);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), more.begin()));
}

TEST(RandomFeatures, haveNormalMoments) {
    constexpr uint32_t dims = 6, m = 4096;
    const std::vector<float> omega = features(m, dims, VKATTN_LENGTHS_CHI, 3);
    double mean = 0, square = 0, fourth = 0;
    for (const float each : omega) {
        const double x = static_cast<double>(each);
        mean += x, square += x * x, fourth += x * x * x * x;
    }
    const auto count = static_cast<double>(omega.size());
    EXPECT_NEAR(mean / count, 0, 0.03);
    EXPECT_NEAR(square / count, 1, 0.04);
    EXPECT_NEAR(fourth / count, 3, 0.25);
}

// The relative variance of one kernel value is (exp(|q + k|^2) - 1) / m for independent features. A single feature is
// such a one; orthogonal ones have less, and hyperbolic ones less again.
TEST(RandomFeatures, haveTheVarianceOfTheTheory) {
    const std::vector<float> q = {0.4f, -0.2f, 0.3f, 0.1f}, k = {0.2f, 0.3f, -0.1f, 0.5f};
    const double exact = std::exp(dot(q.data(), k.data(), 4));
    double sum = 0;
    for (int d = 0; d < 4; ++d) sum += std::pow(static_cast<double>(q[static_cast<size_t>(d)] + k[static_cast<size_t>(d)]), 2);
    const double predicted = exact * exact * (std::exp(sum) - 1);
    const Moments one = momentsOf(1, q, k, false, 40000);
    EXPECT_NEAR(one.mean, exact, 4 * std::sqrt(predicted / 40000));
    EXPECT_NEAR(one.variance / predicted, 1, 0.12);
    const Moments block = momentsOf(4, q, k, false, 20000), both = momentsOf(4, q, k, true, 20000);
    EXPECT_NEAR(block.mean, exact, 4 * std::sqrt(predicted / 4 / 20000));
    EXPECT_LT(block.variance, 1.02 * predicted / 4);
    EXPECT_LT(both.variance, block.variance);
}

TEST(RandomFeatures, refuseWhatTheyCannotMake) {
    float room[4];
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnRandomFeatures(0, 2, VKATTN_LENGTHS_CHI, 0, 0, room, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "m is 0, expected 1 to 4096");
    EXPECT_EQ(vkattnRandomFeatures(2, 2049, VKATTN_LENGTHS_CHI, 0, 0, room, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "dims is 2049, expected 1 to 2048");
    EXPECT_EQ(vkattnRandomFeatures(2, 2, static_cast<vkattn_feature_lengths>(2), 0, 0, room, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnRandomFeatures(2, 2, VKATTN_LENGTHS_CHI, 0, 0, nullptr, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
}
