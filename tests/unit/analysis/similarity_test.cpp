// How alike heads are, and attention through layers.
#include "heads.hpp"

#include "analysis/rollout.hpp"
#include "analysis/similarity.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vkattn::test {
namespace {

using namespace analysis;

TEST(AnalysisSimilarity, byHand) {
    const std::vector<HeadRows> heads = {headRows(oneHotHead(4, 0)), headRows(oneHotHead(4, 1)), headRows(uniformHead(4)),
                                         headRows(headOf(4, 4, [](size_t, size_t) { return 0; }))};
    const Matrix js = jensenShannon(heads), cos = cosine(heads);
    EXPECT_EQ(js(0, 0), 0);
    EXPECT_NEAR(js(0, 1), std::log(2), 1e-12);
    // H of (5/8, 1/8, 1/8, 1/8), less half of ln 4.
    const double between = -(0.625 * std::log(0.625) + 0.375 * std::log(0.125)) - std::log(4) / 2;
    EXPECT_NEAR(js(0, 2), between, 1e-12);
    EXPECT_EQ(js(2, 0), js(0, 2));
    EXPECT_TRUE(std::isnan(js(0, 3)) && std::isnan(js(3, 3)) && std::isnan(cos(3, 3)));
    EXPECT_EQ(cos(0, 1), 0);
    EXPECT_NEAR(cos(0, 0), 1, 1e-12);
    EXPECT_NEAR(cos(0, 2), 0.5, 1e-12);
}

TEST(AnalysisSimilarity, divergencesByRelativeEntropies) {
    Random random = randomFor("AnalysisSimilarity.divergencesByRelativeEntropies");
    const std::vector<HeadRows> heads = {headRows(logitsHead(random, 9)), headRows(logitsHead(random, 9)),
                                         headRows(logitsHead(random, 9), 3)};
    double expected = 0;
    for (size_t n = 0; n < 81; n++) {
        const double p = heads[0].p.elements[n], q = heads[1].p.elements[n], m = (p + q) / 2;
        expected += (p * std::log(p / m) + q * std::log(q / m)) / 2 / 9;
    }
    EXPECT_NEAR(jensenShannon(std::span(heads).first(2))(0, 1), expected, 1e-12);
    EXPECT_EQ(heads[2].p.rows, 3u);
}

TEST(AnalysisSimilarity, linearCka) {
    Random random = randomFor("AnalysisSimilarity.linearCka");
    Matrix y(20, 3), turned(20, 3), noise(20, 3), constant(20, 3);
    for (double &each : y.elements) each = normal(random);
    for (double &each : noise.elements) each = normal(random);
    for (size_t i = 0; i < 20; i++) { // turned, scaled and moved: CKA sees no difference
        turned(i, 0) = 2 * (0.6 * y(i, 0) + 0.8 * y(i, 1)) + 5;
        turned(i, 1) = 2 * (-0.8 * y(i, 0) + 0.6 * y(i, 1));
        turned(i, 2) = 2 * y(i, 2) - 1;
    }
    const std::vector<Matrix> outputs = {y, turned, noise, constant};
    const Matrix cka = linearCka(outputs);
    EXPECT_NEAR(cka(0, 0), 1, 1e-12);
    EXPECT_NEAR(cka(0, 1), 1, 1e-12);
    EXPECT_LT(cka(0, 2), 0.7);
    EXPECT_TRUE(std::isnan(cka(0, 3)));
}

TEST(AnalysisRollout, byHand) {
    const std::vector<HeadWeights> heads = {oneHotHead(2, 0), identityHead(2)};
    const Matrix mean = meanOfHeads(heads);
    EXPECT_EQ(mean.elements, (std::vector<double>{1, 0, 0.5, 0.5}));
    // (A + I) / 2 = [1 0; .25 .75], twice: the first layer acts on the tokens themselves.
    const std::vector<Matrix> layers = {mean, mean};
    EXPECT_EQ(rollout(layers).elements, (std::vector<double>{1, 0, 0.25 + 0.75 * 0.25, 0.5625}));
    // Order: a swap after a sink is not a sink after a swap.
    const Matrix sink = meanOfHeads(std::span(heads).first(1));
    Matrix swap(2, 2);
    swap(0, 1) = swap(1, 0) = 1;
    const std::vector<Matrix> ordered = {sink, swap};
    EXPECT_EQ(rollout(ordered).elements, (std::vector<double>{0.75, 0.25, 0.75, 0.25}));
    // A row without weights keeps its token.
    EXPECT_EQ(rollout(std::vector<Matrix>{Matrix(2, 2)}).elements, (std::vector<double>{1, 0, 0, 1}));
    EXPECT_EQ(rollout({}).rows, 0u);
}

} // namespace
} // namespace vkattn::test
