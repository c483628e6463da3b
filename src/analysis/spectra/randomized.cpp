#include "analysis/spectra/randomized.hpp"

#include "analysis/spectra/eigen.hpp"

#include <Eigen/QR>

#include <algorithm>
#include <random>

namespace vkattn::analysis {
namespace {

// An orthonormal basis of the columns.
Matrix basis(const Matrix &of) {
    const auto columns = view(of);
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(columns);
    return matrixOf(qr.householderQ() * Eigen::MatrixXd::Identity(columns.rows(), columns.cols()));
}

} // namespace

LinearMap mapOf(const Matrix &matrix) {
    return {matrix.rows, matrix.columns, [&matrix](const Matrix &x) { return matrixOf(view(matrix) * view(x)); },
            [&matrix](const Matrix &y) { return matrixOf(view(matrix).transpose() * view(y)); }};
}

SingularVectors leadingSingular(const LinearMap &map, size_t count, const RandomizedOptions &options) {
    SingularVectors result;
    const size_t most = std::min(map.rows, map.columns), wanted = std::min(count, most);
    if (wanted == 0) return result;
    Matrix x(map.columns, std::min(most, wanted + options.oversampling));
    // Box and Muller's numbers would differ between libraries; those of this engine do not, and sums of
    // them are near enough to normal ones.
    std::mt19937_64 engine(options.seed);
    for (double &each : x.elements) {
        each = -6;
        for (int n = 0; n < 12; n++) each += static_cast<double>(engine() >> 11) * 0x1p-53;
    }
    // Each product is orthonormalised: without, all columns turn into the leading vector.
    Matrix range = basis(map.apply(x));
    for (size_t n = 0; n < options.powerIterations; n++) range = basis(map.apply(basis(map.applyTransposed(range))));
    const Matrix projected = map.applyTransposed(range); // A^T Q, so that A is nearly Q (A^T Q)^T
    const SingularVectors found = singularVectors(matrixOf(view(projected).transpose()));
    const auto kept = static_cast<Eigen::Index>(wanted);
    result.values.assign(found.values.begin(), found.values.begin() + kept);
    result.left = matrixOf(view(range) * view(found.left).leftCols(kept));
    result.right = matrixOf(view(found.right).leftCols(kept));
    return result;
}

} // namespace vkattn::analysis
