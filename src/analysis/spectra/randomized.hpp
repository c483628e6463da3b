// The leading singular values of a matrix that is known only by what it does to vectors (Halko, Martinsson
// & Tropp 2011): A x is a forward pass of attention with x as the values, and A^T y is its gradient with
// respect to the values for an incoming gradient y.
#pragma once

#include "analysis/spectra/spectrum.hpp"

#include <cstdint>
#include <functional>

namespace vkattn::analysis {

struct LinearMap {
    size_t rows = 0, columns = 0;
    std::function<Matrix(const Matrix &x)> apply;           // [columns, n] -> [rows, n]
    std::function<Matrix(const Matrix &y)> applyTransposed; // [rows, n] -> [columns, n]
};
// The matrix outlives the map.
[[nodiscard]] LinearMap mapOf(const Matrix &matrix);

struct RandomizedOptions {
    size_t oversampling = 8;
    size_t powerIterations = 2; // q: apply and applyTransposed are called q + 1 times each
    uint64_t seed = 1;
};
// At most min(rows, columns) of them. Never above the true values but for rounding.
[[nodiscard]] SingularVectors leadingSingular(const LinearMap &map, size_t count, const RandomizedOptions &options = {});

} // namespace vkattn::analysis
