#include "conform/layers/bounded.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::conform {

Rounding roundingOf(vkattn_dtype dtype) {
    if (dtype == VKATTN_F16) return {0x1p-11, 0x1p-25};
    if (dtype == VKATTN_BF16) return {0x1p-8, 0x1p-126}; // subnormal numbers may be 0
    return {fp32Unit, 0x1p-126};
}

Bounded rounded(Bounded number, vkattn_dtype dtype) {
    const Rounding rounding = roundingOf(dtype);
    return {number.value, number.error + (std::abs(number.value) + number.error) * rounding.unit + rounding.floor};
}

BoundedRows rounded(BoundedRows rows, vkattn_dtype dtype) {
    for (BoundedRow &row : rows)
        for (Bounded &each : row) each = rounded(each, dtype);
    return rows;
}

BoundedRows product(const BoundedRows &x, const BoundedMatrix &w, const std::vector<float> *bias) {
    BoundedRows y;
    for (const BoundedRow &row : x) {
        BoundedRow &sums = y.emplace_back(w.count);
        for (size_t o = 0; o < w.count; ++o) {
            const double added = bias ? static_cast<double>((*bias)[w.first + o]) : 0;
            double value = added, magnitude = std::abs(added), error = 0;
            for (size_t n = 0; n < row.size(); ++n) {
                const auto weight = static_cast<double>(w.values[(w.first + o) * row.size() + n]);
                value += row[n].value * weight;
                magnitude += std::abs(row[n].value * weight);
                error += row[n].error * std::abs(weight);
            }
            sums[o] = {value, error + unitOfSum(row.size()) * (magnitude + error)};
        }
    }
    return y;
}

BoundedRows sum(BoundedRows a, const BoundedRows &b) {
    for (size_t i = 0; i < a.size(); ++i)
        for (size_t n = 0; n < a[i].size(); ++n) {
            const double value = a[i][n].value + b[i][n].value;
            a[i][n] = {value, a[i][n].error + b[i][n].error + fp32Unit * std::abs(value)};
        }
    return a;
}

BoundedRows dropped(BoundedRows rows, double probability, uint64_t seed, uint32_t offset, uint32_t plane) {
    const double threshold = std::nearbyint(probability * 0x1p32), factor = 0x1p32 / (0x1p32 - threshold);
    for (uint32_t i = 0; i < rows.size(); ++i)
        for (uint32_t j = 0; j < rows[i].size(); ++j) {
            Bounded &each = rows[i][j];
            if (!vkattnDropoutKeeps(probability, seed, offset, plane, i, j))
                each = {};
            else
                each = {factor * each.value, factor * (each.error + 2 * fp32Unit * (std::abs(each.value) + each.error))};
        }
    return rows;
}

BoundedRows norm(const BoundedRows &x, vkattn_norm_kind kind, float epsilon, const std::vector<float> *gamma,
                 const std::vector<float> *beta) {
    BoundedRows y = x;
    for (BoundedRow &row : y) {
        const auto dims = static_cast<double>(row.size());
        Bounded mean;
        double magnitude = 0;
        for (const Bounded &each : row) {
            mean.value += each.value / dims;
            mean.error += each.error / dims;
            magnitude += std::abs(each.value) / dims;
        }
        mean.error += unitOfSum(row.size()) * magnitude;
        if (kind == VKATTN_RMS_NORM) mean = {};
        Bounded variance;
        for (Bounded &each : row) {
            each = {each.value - mean.value, each.error + mean.error + fp32Unit * (std::abs(each.value) + std::abs(mean.value))};
            variance.value += each.value * each.value / dims;
            variance.error += each.error * (2 * std::abs(each.value) + each.error) / dims;
        }
        variance.error += unitOfSum(row.size()) * variance.value;
        const double sigma = std::sqrt(variance.value + static_cast<double>(epsilon)),
                     least = std::sqrt(std::max(variance.value - variance.error, 0.0) + static_cast<double>(epsilon));
        const double errorOfInverse = variance.error / (sigma * least * (sigma + least));
        for (size_t n = 0; n < row.size(); ++n) {
            const double scale = gamma ? static_cast<double>((*gamma)[n]) : 1, shift = beta ? static_cast<double>((*beta)[n]) : 0;
            const double value = row[n].value / sigma * scale + shift;
            const double error = (row[n].error / least + std::abs(row[n].value) * errorOfInverse) * std::abs(scale);
            row[n] = {value, error + 16 * fp32Unit * (std::abs(row[n].value / sigma * scale) + std::abs(shift))};
        }
    }
    return y;
}

BoundedRow rotated(const BoundedRow &x, vkattn_rotary_pairs pairs, uint32_t position) {
    BoundedRow y = x;
    const size_t count = x.size() / 2;
    for (size_t pair = 0; pair < count; ++pair) {
        const bool half = pairs == VKATTN_PAIRS_HALF;
        const size_t a = half ? pair : 2 * pair, b = half ? pair + count : 2 * pair + 1;
        const double angle = position * std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(x.size())),
                     cos = std::cos(angle), sin = std::sin(angle);
        const double error = 4 * fp32Unit * (std::abs(x[a].value) + std::abs(x[b].value)) + x[a].error + x[b].error;
        y[a] = {x[a].value * cos - x[b].value * sin, error};
        y[b] = {x[a].value * sin + x[b].value * cos, error};
    }
    return y;
}

BoundedRow attend(const BoundedRow &scores, size_t dims, const std::function<Bounded(size_t key, size_t dim)> &value, vkattn_dtype stored) {
    BoundedRow all(dims);
    if (scores.empty()) return all;
    double most = -INFINITY, worst = 0, total = 0;
    for (const Bounded &each : scores) most = std::max(most, each.value), worst = std::max(worst, each.error);
    for (const Bounded &each : scores) total += std::exp(each.value - most);
    // Of a weight: what the errors of two scores make of a quotient, the error of exp in Vulkan,
    // and the sums.
    constexpr double unitOfExp = 0x1p-18;
    const Rounding rounding = roundingOf(stored);
    const double relative = std::expm1(2 * worst) + unitOfExp + unitOfSum(scores.size()) + rounding.unit;
    for (size_t d = 0; d < dims; ++d)
        for (size_t j = 0; j < scores.size(); ++j) {
            const double weight = std::exp(scores[j].value - most) / total;
            const Bounded v = value(j, d);
            all[d].value += weight * v.value;
            all[d].error += weight * (relative * std::abs(v.value) + (1 + relative) * v.error) + rounding.floor * std::abs(v.value);
        }
    return all;
}

} // namespace vkattn::conform
