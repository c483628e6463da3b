#include "analysis/spectra/spectrum.hpp"

#include "analysis/spectra/eigen.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::analysis {
namespace {

bool isFinite(const Matrix &matrix) {
    return std::all_of(matrix.elements.begin(), matrix.elements.end(), [](double element) { return std::isfinite(element); });
}

using Svd = Eigen::BDCSVD<Eigen::MatrixXd>; // takes half a minute to compile: in this source alone

} // namespace

bool isTriangular(const Matrix &matrix) {
    bool lower = true, upper = true;
    for (size_t i = 0; i < matrix.rows; i++)
        for (size_t j = 0; j < matrix.columns; j++)
            if (matrix(i, j) != 0) (i < j ? lower : upper) &= i == j;
    return lower || upper;
}

SingularValues describeSingular(std::vector<double> values, size_t rows, size_t columns, double unit) {
    SingularValues result;
    result.values = std::move(values);
    if (result.values.empty()) return result;
    const double largest = result.values.front(), least = result.values.back();
    const auto size = static_cast<double>(std::max(rows, columns));
    result.singular = least < static_cast<double>(result.values.size()) * doubleUnit * largest || least == 0;
    result.condition = result.singular ? std::numeric_limits<double>::infinity() : largest / least;
    double squares = 0, sum = 0, entropy = 0;
    for (const double value : result.values) {
        squares += value * value;
        sum += value;
        result.rank += value > size * unit * largest;
    }
    if (largest == 0) return result;
    for (const double value : result.values)
        if (value > 0) entropy -= value / sum * std::log(value / sum);
    result.stableRank = squares / (largest * largest);
    result.effectiveRank = std::exp(entropy);
    return result;
}

SingularValues singularValues(const Matrix &matrix, double unit) {
    if (matrix.elements.empty() || !isFinite(matrix)) return {};
    const Eigen::MatrixXd a = view(matrix);
    const Eigen::VectorXd found = Svd(a).singularValues();
    return describeSingular(std::vector<double>(found.begin(), found.end()), matrix.rows, matrix.columns, unit);
}

SingularVectors singularVectors(const Matrix &matrix) {
    const Eigen::MatrixXd a = view(matrix);
    const Svd svd(a, Eigen::ComputeThinU | Eigen::ComputeThinV);
    const Eigen::VectorXd &values = svd.singularValues();
    return {{values.begin(), values.end()}, matrixOf(svd.matrixU()), matrixOf(svd.matrixV())};
}

Eigenvalues eigenvalues(const Matrix &matrix) {
    Eigenvalues result;
    if (matrix.elements.empty() || matrix.rows != matrix.columns || !isFinite(matrix)) return result;
    result.triangular = isTriangular(matrix);
    if (result.triangular) {
        for (size_t i = 0; i < matrix.rows; i++) result.values.emplace_back(matrix(i, i));
    } else {
        // Reduces to Hessenberg form, and takes shifted QR steps from there.
        const Eigen::EigenSolver<Eigen::MatrixXd> solver(view(matrix), false);
        result.converged = solver.info() == Eigen::Success;
        if (!result.converged) return result;
        result.values.assign(solver.eigenvalues().begin(), solver.eigenvalues().end());
    }
    std::sort(result.values.begin(), result.values.end(), [](const auto &a, const auto &b) {
        const double sizeA = std::abs(a), sizeB = std::abs(b);
        return sizeA != sizeB ? sizeA > sizeB : a.real() != b.real() ? a.real() > b.real() : a.imag() > b.imag();
    });
    result.radius = std::abs(result.values[0]);
    result.gap = 1 - (result.values.size() > 1 ? std::abs(result.values[1]) : 0);
    return result;
}

Stationary stationaryDistribution(const Matrix &matrix, size_t mostSteps) {
    Stationary result;
    if (matrix.elements.empty() || matrix.rows != matrix.columns || !isFinite(matrix)) {
        result.converged = false;
        return result;
    }
    const auto a = view(matrix);
    const Eigen::VectorXd stays = (a.rowwise().sum().array() == 0).cast<double>();
    Eigen::VectorXd pi = Eigen::VectorXd::Constant(a.rows(), 1 / static_cast<double>(matrix.rows));
    result.converged = false;
    while (!result.converged && result.steps < mostSteps) {
        result.steps++;
        Eigen::VectorXd next = a.transpose() * pi + stays.cwiseProduct(pi);
        next /= next.sum();
        result.converged = (next - pi).lpNorm<1>() < 1e-12;
        pi = next;
    }
    result.distribution.assign(pi.begin(), pi.end());
    return result;
}

} // namespace vkattn::analysis
