// Formulas of layers in double precision. Each number has a bound of how far a chain of operations
// may be off that computes in fp32 and stores in a narrower type: the bounds of the steps are
// propagated (running error analysis: Higham, Accuracy and Stability of Numerical Algorithms, 2002,
// section 3.3), so that a layer is compared whole as closely as its steps allow.
#pragma once

#include "vkattn/operations.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace vkattn::conform {

struct Bounded {
    double value = 0, error = 0;
};
using BoundedRow = std::vector<Bounded>;
using BoundedRows = std::vector<BoundedRow>;

inline constexpr double fp32Unit = 0x1p-24;
// Of a sum in fp32, relative to the sum of its terms' magnitudes.
[[nodiscard]] inline double unitOfSum(size_t terms) {
    return (static_cast<double>(terms) + 8) * fp32Unit;
}

// A sum of products. `error` is what the factors' own errors make of it, without the rounding of the
// sum.
struct BoundedSum {
    double value = 0, magnitude = 0, error = 0;

    void add(const Bounded &a, const Bounded &b) { add(a, b, std::abs(b.value)); }
    // b is itself a sum, of terms of this magnitude.
    void add(const Bounded &a, const Bounded &b, double magnitudeOfB) {
        value += a.value * b.value;
        magnitude += std::abs(a.value) * magnitudeOfB;
        error += std::abs(a.value) * b.error + a.error * (magnitudeOfB + b.error);
    }
};

// Rounding where a type is stored: relative, and for subnormal numbers absolute.
struct Rounding {
    double unit, floor;
};
[[nodiscard]] Rounding roundingOf(vkattn_dtype dtype);
[[nodiscard]] Bounded rounded(Bounded number, vkattn_dtype dtype);
[[nodiscard]] BoundedRows rounded(BoundedRows rows, vkattn_dtype dtype);

// Rows [first, first + count) of a matrix [out, in] whose rows lie together.
struct BoundedMatrix {
    const std::vector<float> &values;
    size_t first, count;
};
// Returns X W^T + bias; `bias` may be NULL, and otherwise has an element for each row of the
// matrix.
[[nodiscard]] BoundedRows product(const BoundedRows &x, const BoundedMatrix &w, const std::vector<float> *bias = nullptr);
[[nodiscard]] BoundedRows sum(BoundedRows a, const BoundedRows &b);
// Dropout of the rows of a plane.
[[nodiscard]] BoundedRows dropped(BoundedRows rows, double probability, uint64_t seed, uint32_t offset, uint32_t plane);
// `gamma` and `beta` may be NULL.
[[nodiscard]] BoundedRows norm(const BoundedRows &x, vkattn_norm_kind kind, float epsilon, const std::vector<float> *gamma,
                               const std::vector<float> *beta);
// Turns all elements: `position * base 10000 ^ (-2 pair / dims)`.
[[nodiscard]] BoundedRow rotated(const BoundedRow &x, vkattn_rotary_pairs pairs, uint32_t position);
// Softmax of the scores, and the weighted sum of rows of `dims` values; zeros where there is no
// score. Kernels may round the weights to the type that is stored.
[[nodiscard]] BoundedRow attend(const BoundedRow &scores, size_t dims, const std::function<Bounded(size_t key, size_t dim)> &value,
                                vkattn_dtype stored);

} // namespace vkattn::conform
