// Spectra against plain second formulations and theory.
#include "heads.hpp"

#include "analysis/spectra/randomized.hpp"
#include "analysis/spectra/spectrum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace vkattn::test {
namespace {

using namespace analysis;

// One-sided Jacobi (Hestenes 1958): turns pairs of columns until all are orthogonal.
std::vector<double> jacobiSingular(Matrix a) {
    for (int sweep = 0; sweep < 60; sweep++) {
        bool turned = false;
        for (size_t p = 0; p < a.columns; p++)
            for (size_t q = p + 1; q < a.columns; q++) {
                double alpha = 0, beta = 0, gamma = 0;
                for (size_t i = 0; i < a.rows; i++) alpha += a(i, p) * a(i, p), beta += a(i, q) * a(i, q), gamma += a(i, p) * a(i, q);
                if (std::fabs(gamma) <= 1e-15 * std::sqrt(alpha * beta)) continue;
                turned = true;
                const double zeta = (beta - alpha) / (2 * gamma),
                             t = std::copysign(1, zeta) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
                const double c = 1 / std::sqrt(1 + t * t), s = c * t;
                for (size_t i = 0; i < a.rows; i++) {
                    const double x = a(i, p), y = a(i, q);
                    a(i, p) = c * x - s * y, a(i, q) = s * x + c * y;
                }
            }
        if (!turned) break;
    }
    std::vector<double> values(a.columns);
    for (size_t p = 0; p < a.columns; p++) {
        for (size_t i = 0; i < a.rows; i++) values[p] += a(i, p) * a(i, p);
        values[p] = std::sqrt(values[p]);
    }
    std::sort(values.rbegin(), values.rend());
    return values;
}

TEST(AnalysisSpectrum, singularValuesByJacobi) {
    Random random = randomFor("AnalysisSpectrum.singularValuesByJacobi");
    for (const auto &[rows, columns] : {std::pair{40, 40}, {30, 12}, {1, 1}, {5, 1}}) {
        Matrix a(static_cast<size_t>(rows), static_cast<size_t>(columns));
        for (double &each : a.elements) each = normal(random);
        const SingularValues found = singularValues(a);
        const std::vector<double> expected = jacobiSingular(a);
        ASSERT_EQ(found.values.size(), expected.size());
        for (size_t n = 0; n < expected.size(); n++) EXPECT_NEAR(found.values[n], expected[n], 1e-10);
        EXPECT_NEAR(found.condition, expected.front() / expected.back(), 1e-6 * found.condition);
        EXPECT_EQ(found.rank, expected.size());
        double squares = 0;
        for (const double element : a.elements) squares += element * element;
        EXPECT_NEAR(found.stableRank, squares / expected[0] / expected[0], 1e-9);
    }
}

TEST(AnalysisSpectrum, ranks) {
    const SingularValues identity = singularValues(normalized(identityHead(7)));
    EXPECT_NEAR(identity.condition, 1, 1e-12);
    EXPECT_NEAR(identity.stableRank, 7, 1e-9);
    EXPECT_NEAR(identity.effectiveRank, 7, 1e-9);
    const SingularValues uniform = singularValues(normalized(uniformHead(7)));
    EXPECT_TRUE(uniform.singular);
    EXPECT_EQ(uniform.condition, INFINITY);
    EXPECT_EQ(uniform.rank, 1u);
    EXPECT_NEAR(uniform.values[0], 1, 1e-12);
    EXPECT_NEAR(uniform.effectiveRank, 1, 1e-9);
    EXPECT_EQ(singularValues(normalized(blocksHead(8))).rank, 2u);
    EXPECT_EQ(describeSingular({2, 1, 1}, 3, 3).effectiveRank, std::exp(-0.5 * std::log(0.5) - 2 * 0.25 * std::log(0.25)));
    // 2^-24 times 3 of the largest is rounding of float32 weights.
    EXPECT_EQ(describeSingular({1, 1e-7}, 2, 2).rank, 1u);
    EXPECT_EQ(describeSingular({1, 1e-7}, 2, 2, doubleUnit).rank, 2u);
    EXPECT_TRUE(singularValues(Matrix()).values.empty());
    Matrix bad(2, 2);
    bad(0, 1) = NAN;
    EXPECT_TRUE(singularValues(bad).values.empty());
    EXPECT_TRUE(eigenvalues(bad).values.empty());
    EXPECT_TRUE(eigenvalues(Matrix(2, 3)).values.empty());
    EXPECT_TRUE(singularValues(Matrix(3, 3)).singular);
}

TEST(AnalysisSpectrum, eigenvaluesOfRotationsAndTraces) {
    Matrix turn(2, 2); // by 60 degrees: exp(+-i pi / 3)
    turn(0, 0) = turn(1, 1) = 0.5, turn(0, 1) = -std::sqrt(0.75), turn(1, 0) = std::sqrt(0.75);
    const Eigenvalues turned = eigenvalues(turn);
    EXPECT_NEAR(turned.radius, 1, 1e-12); // the largest real part is 0.5
    EXPECT_NEAR(turned.values[0].real(), 0.5, 1e-12);
    EXPECT_NEAR(std::fabs(turned.values[0].imag()), std::sqrt(0.75), 1e-12);
    Random random = randomFor("AnalysisSpectrum.eigenvaluesOfRotationsAndTraces");
    const Matrix a = normalized(logitsHead(random, 30));
    const Eigenvalues e = eigenvalues(a);
    ASSERT_EQ(e.values.size(), 30u);
    std::complex<double> sum = 0, squares = 0;
    double trace = 0, traceOfSquare = 0;
    for (const auto &value : e.values) sum += value, squares += value * value;
    for (size_t i = 0; i < 30; i++) {
        trace += a(i, i);
        for (size_t j = 0; j < 30; j++) traceOfSquare += a(i, j) * a(j, i);
    }
    EXPECT_NEAR(std::abs(sum - trace), 0, 1e-10);
    EXPECT_NEAR(std::abs(squares - traceOfSquare), 0, 1e-10);
    EXPECT_NEAR(e.radius, 1, 1e-10); // full rows
    EXPECT_FALSE(e.triangular);
}

TEST(AnalysisSpectrum, causalEigenvaluesAreTheDiagonal) {
    Random random = randomFor("AnalysisSpectrum.causalEigenvaluesAreTheDiagonal");
    const Matrix a = normalized(logitsHead(random, 50, true));
    const Eigenvalues e = eigenvalues(a);
    EXPECT_TRUE(e.triangular);
    std::vector<double> diagonal;
    for (size_t i = 0; i < 50; i++) diagonal.push_back(a(i, i));
    std::sort(diagonal.rbegin(), diagonal.rend());
    for (size_t i = 0; i < 50; i++) EXPECT_EQ(e.values[i], diagonal[i]);
    EXPECT_EQ(e.radius, 1);
    EXPECT_EQ(e.gap, 1 - diagonal[1]);
    const Stationary pi = stationaryDistribution(a);
    EXPECT_TRUE(pi.converged);
    EXPECT_NEAR(pi.distribution[0], 1, 1e-9);
}

TEST(AnalysisSpectrum, stationaryByHand) {
    Matrix chain(2, 2);
    chain(0, 0) = 0.9, chain(0, 1) = 0.1, chain(1, 0) = 0.4, chain(1, 1) = 0.6;
    const Stationary pi = stationaryDistribution(chain);
    EXPECT_NEAR(pi.distribution[0], 0.8, 1e-10);
    EXPECT_NEAR(pi.distribution[1], 0.2, 1e-10);
    EXPECT_NEAR(eigenvalues(chain).gap, 0.5, 1e-12);
    Matrix stays(2, 2); // the second row sees nothing
    stays(0, 1) = 1;
    EXPECT_NEAR(stationaryDistribution(stays).distribution[1], 1, 1e-12);
    EXPECT_FALSE(stationaryDistribution(Matrix(2, 3)).converged);
}

// N(0, 1) inputs of 64 dims: |lambda_2| near sqrt((e - 1) / n), .232, .164, .116, in the median, since a
// draw in hundreds is three times that; sigma_1 1.025, 1.016, 1.010 and never below 1.
TEST(AnalysisSpectrum, randomDots) {
    Random random = randomFor("AnalysisSpectrum.randomDots");
    struct Row {
        size_t n;
        double largest;
    };
    for (const Row &row : {Row{32, 1.025}, {64, 1.016}, {128, 1.010}}) {
        const size_t draws = 1536 / row.n;
        std::vector<double> seconds;
        double largest = 0;
        for (size_t run = 0; run < draws; run++) {
            const Matrix a = normalized(dotsHead(random, row.n, 64));
            seconds.push_back(1 - eigenvalues(a).gap);
            const double sigma = singularValues(a).values[0];
            EXPECT_GE(sigma, 1 - 1e-12);
            double column = 0;
            for (size_t j = 0; j < row.n; j++) {
                double sum = 0;
                for (size_t i = 0; i < row.n; i++) sum += a(i, j);
                column = std::max(column, sum);
            }
            EXPECT_LE(sigma, std::sqrt(column) + 1e-12);
            largest += sigma / static_cast<double>(draws);
        }
        std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
        const double expected = std::sqrt((std::numbers::e - 1) / static_cast<double>(row.n));
        EXPECT_NEAR(seconds[seconds.size() / 2], expected, 0.2 * expected) << row.n;
        EXPECT_NEAR(largest, row.largest, 0.2 * (row.largest - 1) + 0.003) << row.n;
    }
}

TEST(AnalysisSpectrum, randomProjections) {
    Random random = randomFor("AnalysisSpectrum.randomProjections");
    // Singular values 1, 1/2, 1/4...: products of orthonormal columns, from two random matrices.
    Matrix a(60, 40);
    for (double &each : a.elements) each = normal(random);
    for (size_t j = 0; j < 40; j++)
        for (size_t i = 0; i < 60; i++) a(i, j) *= std::pow(0.5, static_cast<double>(j));
    const SingularValues exact = singularValues(a);
    const SingularVectors leading = leadingSingular(mapOf(a), 5);
    ASSERT_EQ(leading.values.size(), 5u);
    for (size_t n = 0; n < 5; n++) EXPECT_NEAR(leading.values[n], exact.values[n], 1e-9 * exact.values[0]);
    // A v = sigma u.
    for (size_t n = 0; n < 5; n++)
        for (size_t i = 0; i < 60; i++) {
            double product = 0;
            for (size_t j = 0; j < 40; j++) product += a(i, j) * leading.right(j, n);
            EXPECT_NEAR(product, leading.values[n] * leading.left(i, n), 1e-7);
        }
    size_t passes = 0;
    LinearMap counted = mapOf(a);
    counted.apply = [&, inner = counted.apply](const Matrix &x) { return passes++, inner(x); };
    counted.applyTransposed = [&, inner = counted.applyTransposed](const Matrix &y) { return passes++, inner(y); };
    (void)leadingSingular(counted, 3, {.powerIterations = 3});
    EXPECT_EQ(passes, 8u); // 2 q + 2
    EXPECT_EQ(leadingSingular(mapOf(a), 100).values.size(), 40u);
    EXPECT_TRUE(leadingSingular(mapOf(Matrix()), 3).values.empty());
}

} // namespace
} // namespace vkattn::test
