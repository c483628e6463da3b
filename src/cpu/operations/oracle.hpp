// One row of each operation in double precision and plain loops, written from the formulas of
// vkattn/operations.h and from nothing else: the oracle's truth, with what its bounds are made of.
#pragma once

#include "cpu/operands.hpp"
#include "problem/dropout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace vkattn {

// A row of X.
struct RowOfX {
    uint32_t b, g, r;
};
[[nodiscard]] inline RowOfX rowOfX(const Operation &o, uint64_t n) {
    const uint64_t entry = n / o.rows;
    return {static_cast<uint32_t>(entry / o.groups), static_cast<uint32_t>(entry % o.groups), static_cast<uint32_t>(n % o.rows)};
}
[[nodiscard]] inline uint64_t rowsOfX(const Operation &o) {
    return uint64_t{o.batch} * o.groups * o.rows;
}

// An element of an operand.
[[nodiscard]] inline double elementOf(const Operation &o, const Operands &operands, vkattn_role role, uint64_t b, uint64_t g, uint64_t r,
                                      uint64_t d) {
    const Tensor &t = o.tensor(role);
    return static_cast<double>(loadElement(t, operands.data[role], b, g, r, static_cast<uint32_t>(d)));
}
inline void storeElementOf(const Operation &o, const Operands &operands, vkattn_role role, const uint64_t (&index)[4], double value) {
    const Tensor &t = o.tensor(role);
    storeElement(operands.data[role], t.dtype, t.index(index[0], index[1], index[2], index[3]), static_cast<float>(value));
}
// Returns a value as a type stores it.
[[nodiscard]] inline double asStored(double value, vkattn_dtype dtype) {
    unsigned char room[bytesOfBlock(VKATTN_Q8_0)] = {}; // for the largest of what is read
    storeElement(room, dtype, 0, static_cast<float>(value));
    return static_cast<double>(loadElement(room, dtype, 0));
}

// A few rows of X in one batch entry and group, times one row of W after the other.
class OracleProducts {
  public:
    static constexpr uint32_t rows = 8; // together, so that the loops are no single chain of additions
    double sum[rows], magnitude[rows];  // sum_k x_k w_k, and the sum of the absolute values
    double walk[rows];                  // the sum of the squares of all partial sums
    float emulated[rows];               // the same sum in fp32
    double sumOfX[rows], sumOfW;        // of absolute values

    void take(const Operation &o, const Operands &operands, const RowOfX *ids, uint32_t count) {
        // What lies past a batch entry's length takes no part.
        in_ = o.has(VKATTN_KEY_LENGTHS) ? std::min(operands.word(VKATTN_KEY_LENGTHS, ids[0].b), o.inner) : o.inner;
        x_.assign(size_t{in_} * rows, 0);
        w_.resize(in_);
        std::fill_n(sumOfX, rows, 0.0);
        for (uint32_t n = 0; n < count; ++n)
            for (uint32_t k = 0; k < in_; ++k) {
                x_[size_t{k} * rows + n] = elementOf(o, operands, VKATTN_X, ids[n].b, ids[n].g, ids[n].r, k);
                sumOfX[n] += std::abs(x_[size_t{k} * rows + n]);
            }
    }
    void multiply(const Operation &o, const Operands &operands, uint32_t b, uint32_t g, uint32_t column) {
        sumOfW = 0;
        for (uint32_t k = 0; k < in_; ++k) {
            w_[k] = elementOf(o, operands, VKATTN_W, b, g, column, k);
            sumOfW += std::abs(w_[k]);
        }
        for (uint32_t n = 0; n < rows; ++n) sum[n] = magnitude[n] = walk[n] = 0, emulated[n] = 0;
        const double *x = x_.data();
        for (uint32_t k = 0; k < in_; ++k, x += rows)
            for (uint32_t n = 0; n < rows; ++n) {
                const double product = x[n] * w_[k];
                sum[n] += product;
                magnitude[n] += std::abs(product);
                walk[n] += sum[n] * sum[n];
                emulated[n] += static_cast<float>(x[n]) * static_cast<float>(w_[k]);
            }
    }

  private:
    std::vector<double> x_, w_; // [k][row], [k]
    uint32_t in_ = 0;           // how many k
};

// A row of a norm.
struct OracleNorm {
    std::vector<double> s, y;
    double mean = 0, variance = 0, sigma = 0; // sigma: sqrt(variance + epsilon)
    double magnitude = 0;                     // the sum of |s|

    // The row and its moments.
    void take(const Operation &o, const Operands &operands, const RowOfX &id) {
        const auto dims = static_cast<double>(o.inner);
        s.resize(o.inner);
        magnitude = mean = variance = 0;
        for (uint32_t d = 0; d < o.inner; ++d) {
            s[d] = elementOf(o, operands, VKATTN_X, id.b, id.g, id.r, d);
            if (o.kind == VKATTN_NORM && o.uses(VKATTN_RESIDUAL)) s[d] += elementOf(o, operands, VKATTN_RESIDUAL, id.b, id.g, id.r, d);
            if (o.uses(VKATTN_SUM)) s[d] = asStored(s[d], o.tensor(VKATTN_SUM).dtype);
            magnitude += std::abs(s[d]);
        }
        if (o.norm == VKATTN_LAYER_NORM) {
            for (const double value : s) mean += value;
            mean /= dims;
        }
        for (const double value : s) variance += (value - mean) * (value - mean);
        variance /= dims;
        sigma = std::sqrt(variance + static_cast<double>(o.epsilon));
    }
    void compute(const Operation &o, const Operands &operands, const RowOfX &id) {
        take(o, operands, id);
        y.resize(o.inner);
        for (uint32_t d = 0; d < o.inner; ++d) y[d] = (s[d] - mean) / sigma * gamma(o, operands, d) + beta(o, operands, d);
    }
    [[nodiscard]] static double gamma(const Operation &o, const Operands &operands, uint32_t d) {
        return o.uses(VKATTN_GAMMA) ? elementOf(o, operands, VKATTN_GAMMA, 0, 0, 0, d) : 1;
    }
    [[nodiscard]] static double beta(const Operation &o, const Operands &operands, uint32_t d) {
        return o.uses(VKATTN_BETA) ? elementOf(o, operands, VKATTN_BETA, 0, 0, 0, d) : 0;
    }
};

// A row of the gradient of a norm.
struct OracleNormGradient {
    OracleNorm norm;
    std::vector<double> z, g, dY, dX;                 // dX without the residual
    double meanOfG = 0, meanOfProducts = 0;           // of g * z
    double magnitudeOfG = 0, magnitudeOfProducts = 0; // the means of the absolute values

    void compute(const Operation &o, const Operands &operands, const RowOfX &id) {
        norm.take(o, operands, id);
        z.resize(o.inner), g.resize(o.inner), dY.resize(o.inner), dX.resize(o.inner);
        meanOfG = meanOfProducts = magnitudeOfG = magnitudeOfProducts = 0;
        for (uint32_t d = 0; d < o.inner; ++d) {
            z[d] = (norm.s[d] - norm.mean) / norm.sigma;
            dY[d] = elementOf(o, operands, VKATTN_D_Y, id.b, id.g, id.r, d);
            g[d] = dY[d] * OracleNorm::gamma(o, operands, d);
            meanOfG += g[d] / o.inner, magnitudeOfG += std::abs(g[d]) / o.inner;
            meanOfProducts += g[d] * z[d] / o.inner, magnitudeOfProducts += std::abs(g[d] * z[d]) / o.inner;
        }
        if (o.norm == VKATTN_RMS_NORM) meanOfG = magnitudeOfG = 0;
        for (uint32_t d = 0; d < o.inner; ++d) dX[d] = (g[d] - meanOfG - z[d] * meanOfProducts) / norm.sigma;
    }
};

// A token of rotary embedding or append.
struct OracleToken {
    bool written = false;       // false: the token lies past the end of the cache
    uint64_t entry = 0, to = 0; // the batch entry, or page, and the token of Y
    std::vector<double> y;
    std::vector<double> magnitude; // |x0 c| + |x1 s| and its like; less than 0: the element is copied

    void compute(const Operation &o, const Operands &operands, const RowOfX &id) {
        const uint64_t start = o.has(VKATTN_STARTS) ? operands.word(VKATTN_STARTS, id.b) : o.start;
        to = o.appends() ? start + id.r : id.r;
        entry = id.b;
        written = to < o.tensor(VKATTN_Y).extent[2];
        if (o.kind == VKATTN_APPEND) place(o, operands, id, start);
        y.resize(o.inner);
        magnitude.assign(o.inner, -1.0);
        for (uint32_t d = 0; d < o.inner; ++d) y[d] = elementOf(o, operands, VKATTN_X, id.b, id.g, id.r, d);
        if (o.kind == VKATTN_APPEND) return;
        uint64_t position = start + id.r;
        if (o.has(VKATTN_POSITIONS)) position = operands.word(VKATTN_POSITIONS, uint64_t{id.b} * o.rows + id.r);
        position = std::min<uint64_t>(position, o.tensor(VKATTN_COS).extent[2] - 1);
        for (uint32_t i = 0; i < o.rotated / 2; ++i) {
            const uint32_t first = o.pairs == VKATTN_PAIRS_HALF ? i : 2 * i;
            const uint32_t second = o.pairs == VKATTN_PAIRS_HALF ? i + o.rotated / 2 : 2 * i + 1;
            const double x0 = y[first], x1 = y[second], c = elementOf(o, operands, VKATTN_COS, 0, 0, position, i);
            double s = elementOf(o, operands, VKATTN_SIN, 0, 0, position, i);
            if (o.flags & VKATTN_ROTARY_INVERSE) s = -s;
            y[first] = x0 * c - x1 * s;
            y[second] = x0 * s + x1 * c;
            magnitude[first] = std::abs(x0 * c) + std::abs(x1 * s);
            magnitude[second] = std::abs(x0 * s) + std::abs(x1 * c);
        }
    }
    // Where append sends a token.
    void place(const Operation &o, const Operands &operands, const RowOfX &id, uint64_t start) {
        const bool pages = o.has(VKATTN_PAGE_TABLE);
        const uint64_t tokens = o.tensor(VKATTN_Y).extent[2], capacity = pages ? tokens * o.tablePages : tokens;
        uint64_t position = start + id.r;
        if (o.flags & VKATTN_APPEND_RING && capacity > 0) {
            const bool overwritten = id.r + capacity < o.tensor(VKATTN_X).extent[2];
            position = start > 0x7fffffff || overwritten ? capacity : position % capacity;
        }
        written = position < capacity;
        to = position;
        if (!pages || !written) return;
        const auto page = static_cast<int32_t>(operands.word(VKATTN_PAGE_TABLE, id.b * uint64_t{o.tablePages} + position / tokens));
        written = page >= 0 && static_cast<uint32_t>(page) < o.tensor(VKATTN_Y).extent[0];
        entry = static_cast<uint64_t>(page);
        to = position % tokens;
    }
};

// A word of an advance. 64 bits hold every sum.
[[nodiscard]] inline uint64_t advancedWord(const Operation &o, const Operands &operands, uint64_t n) {
    const uint64_t sum = uint64_t{operands.word(VKATTN_X, o.tensor(VKATTN_X).index(0, 0, 0, n))} + o.by;
    return std::min<uint64_t>(sum, o.limit);
}

// An element of dropout, with the terms that it is the sum of.
struct OracleDrop {
    double kept = 0, residual = 0, y = 0;

    OracleDrop(const Operation &o, const Operands &operands, const RowOfX &id, uint32_t d) {
        const DropoutPlane plane{o.seed, o.dropoutOffset, o.plane(id.b, id.g)};
        if (o.dropoutThreshold == 0 || plane.keeps(o.dropoutThreshold, o.firstRow + id.r, d))
            kept = dropoutFactor(o.dropoutThreshold) * elementOf(o, operands, VKATTN_X, id.b, id.g, id.r, d);
        if (o.uses(VKATTN_RESIDUAL)) residual = elementOf(o, operands, VKATTN_RESIDUAL, id.b, id.g, id.r, d);
        y = o.uses(VKATTN_RESIDUAL) ? residual + kept : kept; // of a zero, the sign
    }
};

// A word of what dropout keeps.
[[nodiscard]] inline uint32_t keptWord(const Operation &o, const RowOfX &id, uint32_t word) {
    const DropoutPlane plane{o.seed, o.dropoutOffset, o.plane(id.b, id.g)};
    uint32_t bits = 0;
    for (uint32_t column = 32 * word; column < std::min(o.columns, 32 * word + 32); ++column)
        if (plane.keeps(o.dropoutThreshold, id.r, column)) bits |= 1u << column % 32;
    return bits;
}

// A row of a merge.
struct OracleMerge {
    double lse = 0;
    std::vector<double> share;   // of each part, which add up to 1; 0: the part is ignored
    std::vector<double> below;   // how far its lse lies below the largest one
    std::vector<bool> takesPart; // its lse is above -inf

    // An element, and the sum of the absolute values of its terms.
    struct Element {
        double y = 0, magnitude = 0;
    };

    void take(const Operation &o, const Operands &operands, const RowOfX &id) {
        share.assign(o.parts, 0), below.assign(o.parts, 0), takesPart.assign(o.parts, false);
        double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
        bool number = true;
        for (uint32_t t = 0; t < o.parts; ++t) {
            const double part = elementOf(o, operands, VKATTN_X_LSE, uint64_t{t} * o.batch + id.b, id.g, id.r, 0);
            below[t] = part;
            takesPart[t] = !(part == -std::numeric_limits<double>::infinity());
            number = number && !std::isnan(part) && part != std::numeric_limits<double>::infinity();
            maximum = std::max(maximum, part);
        }
        for (uint32_t t = 0; t < o.parts; ++t) {
            if (!takesPart[t]) continue;
            below[t] = maximum - below[t];
            share[t] = std::exp(-below[t]);
            sum += share[t];
        }
        for (double &each : share) each = number ? sum > 0 ? each / sum : 0 : std::numeric_limits<double>::quiet_NaN();
        lse = number ? sum > 0 ? maximum + std::log(sum) : maximum : std::numeric_limits<double>::quiet_NaN();
    }
    [[nodiscard]] Element element(const Operation &o, const Operands &operands, const RowOfX &id, uint32_t d) const {
        Element e;
        for (uint32_t t = 0; t < o.parts; ++t) {
            if (!takesPart[t]) continue;
            const double term = share[t] * elementOf(o, operands, VKATTN_X, uint64_t{t} * o.batch + id.b, id.g, id.r, d);
            e.y += term;
            e.magnitude += std::abs(term);
        }
        return e;
    }
};

// A row times the Hadamard matrix, and of each element the sum of the absolute values of its terms: the definition, term by
// term.
struct OracleHadamard {
    std::vector<double> y, magnitude;

    void compute(const Operation &o, const Operands &operands, const RowOfX &id) {
        const double root = std::sqrt(static_cast<double>(o.block));
        x_.resize(o.inner), y.assign(o.inner, 0), magnitude.assign(o.inner, 0);
        for (uint32_t d = 0; d < o.inner; ++d) x_[d] = elementOf(o, operands, VKATTN_X, id.b, id.g, id.r, d) / root;
        for (uint32_t d = 0; d < o.inner; ++d) {
            const uint32_t place = d % o.block;
            const double *const x = x_.data() + (d - place);
            for (uint32_t j = 0; j < o.block; ++j) {
                y[d] += std::popcount(place & j) % 2 ? -x[j] : x[j];
                magnitude[d] += std::abs(x[j]);
            }
        }
    }

  private:
    std::vector<double> x_;
};

// An element of a mean, and the mean of the absolute values.
struct OracleMean {
    double mean = 0, magnitude = 0;

    OracleMean(const Operation &o, const Operands &operands, const RowOfX &id, uint32_t d) {
        for (uint32_t g = 0; g < o.averaged; ++g) {
            const double x = elementOf(o, operands, VKATTN_X, id.b, g, id.r, d);
            mean += x;
            magnitude += std::abs(x);
        }
        mean /= o.averaged;
        magnitude /= o.averaged;
    }
};

} // namespace vkattn
