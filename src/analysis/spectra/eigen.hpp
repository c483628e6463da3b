// Matrices as Eigen sees them. Only sources include this: Eigen takes long to compile.
#pragma once

#include "analysis/spectra/matrix.hpp"

#include <Eigen/Core>

namespace vkattn::analysis {

using EigenMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

[[nodiscard]] inline Eigen::Map<const EigenMatrix> view(const Matrix &matrix) {
    return {matrix.elements.data(), static_cast<Eigen::Index>(matrix.rows), static_cast<Eigen::Index>(matrix.columns)};
}

template <class Derived> [[nodiscard]] Matrix matrixOf(const Eigen::MatrixBase<Derived> &from) {
    Matrix matrix(static_cast<size_t>(from.rows()), static_cast<size_t>(from.cols()));
    Eigen::Map<EigenMatrix>(matrix.elements.data(), from.rows(), from.cols()) = from;
    return matrix;
}

} // namespace vkattn::analysis
