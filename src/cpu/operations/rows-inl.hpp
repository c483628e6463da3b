// Norms, rotary embedding, append, advance, mean, merge, hadamard, keep and drop: operations on rows, for one Highway target. Each row is
// read as a whole before anything of the row is written, so that they work in place.
#if defined(VKATTN_CPU_OPERATIONS_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_OPERATIONS_ROWS_INL_HPP
#undef VKATTN_CPU_OPERATIONS_ROWS_INL_HPP
#else
#define VKATTN_CPU_OPERATIONS_ROWS_INL_HPP
#endif

#include "cpu/operations/work.hpp"
#include "problem/dropout.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// Calls visit(b, g, row) for the rows of a unit.
template <class Visit> HWY_INLINE void forRowsOf(const OperationCall &call, uint64_t unit, const Visit &visit) {
    const Operation &o = call.o;
    const uint64_t end = std::min((unit + 1) * call.rowsPerUnit, uint64_t{o.batch} * o.groups * o.rows);
    for (uint64_t n = unit * call.rowsPerUnit; n < end; ++n) {
        const uint64_t entry = n / o.rows;
        visit(static_cast<uint32_t>(entry / o.groups), static_cast<uint32_t>(entry % o.groups), static_cast<uint32_t>(n % o.rows));
    }
}

// Returns a row as floats: where the row lies, or a copy.
HWY_INLINE const float *rowOf(const Tensor &t, const unsigned char *data, uint32_t b, uint32_t g, uint64_t row, float *copy) {
    const StoredRows rows = storedRows(t, data, b, g, row);
    if (rows.dtype == VKATTN_F32 && rows.dimStride == 1) return reinterpret_cast<const float *>(rows.data);
    copyRows(rows, 1, copy, 0);
    return copy;
}

// Calls visit(d) for the vectors of a row in scratch memory, which goes on to whole cache lines.
template <class Visit> HWY_INLINE void forVectors(uint32_t dims, const Visit &visit) {
    for (uint32_t d = 0; d < dims; d += static_cast<uint32_t>(lanes)) visit(d);
}

// Returns the sum of term(x) over a row in scratch memory. Sums of fp32 end after 4096 elements, so
// that their error does not grow with the row.
template <class Term> HWY_INLINE double sumOver(const float *row, uint32_t dims, const Term &term) {
    constexpr uint32_t block = 4096, chains = 4;
    const Floats f;
    double total = 0;
    for (uint32_t first = 0; first < dims; first += block) {
        const uint32_t end = std::min(dims, first + block);
        Vector sum[chains];
        VKATTN_UNROLL for (Vector &each : sum) each = hn::Zero(f);
        uint32_t d = first;
        for (; d + chains * lanes <= end; d += static_cast<uint32_t>(chains * lanes))
            VKATTN_UNROLL for (uint32_t n = 0; n < chains; ++n) sum[n] = hn::Add(sum[n], term(hn::Load(f, row + d + n * lanes)));
        for (; d < end; d += static_cast<uint32_t>(lanes)) {
            const size_t left = std::min<size_t>(lanes, end - d);
            sum[0] = hn::Add(sum[0], hn::IfThenElseZero(hn::FirstN(f, left), term(hn::Load(f, row + d))));
        }
        const auto all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
        total += static_cast<double>(hn::GetLane(hn::SumOfLanes(f, all)));
    }
    return total;
}

// What a norm subtracts from the elements of a row, in two parts, and what it multiplies them with.
struct RowScale {
    float mean = 0, rest = 0, factor = 0;
};

HWY_INLINE RowScale scaleOf(const Operation &o, const float *row) {
    const Floats f;
    const auto dims = static_cast<double>(o.inner), epsilon = static_cast<double>(o.epsilon);
    RowScale scale;
    double variance;
    if (o.norm == VKATTN_LAYER_NORM) {
        // The mean of the differences is what the rounding of the mean has left.
        scale.mean = static_cast<float>(sumOver(row, o.inner, [](Vector x) HWY_ATTR { return x; }) / dims);
        const auto mean = hn::Set(f, scale.mean);
        const double rest = sumOver(row, o.inner, [&](Vector x) HWY_ATTR { return hn::Sub(x, mean); }) / dims;
        const auto square = [&](Vector x) HWY_ATTR {
            const auto difference = hn::Sub(x, mean);
            return hn::Mul(difference, difference);
        };
        variance = sumOver(row, o.inner, square) / dims - rest * rest;
        if (variance < 0) variance = 0;
        scale.rest = static_cast<float>(rest);
    } else {
        variance = sumOver(row, o.inner, [](Vector x) HWY_ATTR { return hn::Mul(x, x); }) / dims;
    }
    scale.factor = static_cast<float>(1 / std::sqrt(variance + epsilon));
    return scale;
}

inline void normalizeRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Floats f;
    const Operation &o = call.o;
    const size_t room = wholeLines(o.inner);
    float *const row = scratch, *const added = scratch + room;
    const Tensor &x = o.tensor(VKATTN_X), &residual = o.tensor(VKATTN_RESIDUAL), &sum = o.tensor(VKATTN_SUM), &y = o.tensor(VKATTN_Y);
    const auto vectorOf = [&](vkattn_role role, float *to) {
        const bool present = o.tensor(role).present();
        if (present) copyRows(storedRows(o.tensor(role), call.read(role), 0, 0, 0), 1, to, 0);
        return present ? to : nullptr;
    };
    std::fill(scratch, scratch + 4 * room, 0.0f); // past the ends of rows too
    const float *const gamma = vectorOf(VKATTN_GAMMA, scratch + 2 * room), *const beta = vectorOf(VKATTN_BETA, scratch + 3 * room);
    forRowsOf(call, unit, [&](uint32_t b, uint32_t g, uint32_t r) HWY_ATTR {
        copyRows(storedRows(x, call.read(VKATTN_X), b, g, r), 1, row, 0);
        if (residual.present()) {
            copyRows(storedRows(residual, call.read(VKATTN_RESIDUAL), b, g, r), 1, added, 0);
            forVectors(o.inner, [&](uint32_t d) HWY_ATTR { hn::Store(hn::Add(hn::Load(f, row + d), hn::Load(f, added + d)), f, row + d); });
        }
        if (sum.present()) {
            storeRow(sum, call.write(VKATTN_SUM), sum.index(b, g, r, 0), row, o.inner);
            if (sum.dtype != VKATTN_F32) copyRows(storedRows(sum, call.read(VKATTN_SUM), b, g, r), 1, row, 0);
        }
        const RowScale scale = scaleOf(o, row);
        const auto mean = hn::Set(f, scale.mean), rest = hn::Set(f, scale.rest), factor = hn::Set(f, scale.factor);
        forVectors(o.inner, [&](uint32_t d) HWY_ATTR {
            auto value = hn::Mul(hn::Sub(hn::Sub(hn::Load(f, row + d), mean), rest), factor);
            if (gamma) value = hn::Mul(value, hn::Load(f, gamma + d));
            if (beta) value = hn::Add(value, hn::Load(f, beta + d));
            hn::Store(value, f, row + d);
        });
        storeRow(y, call.write(VKATTN_Y), y.index(b, g, r, 0), row, o.inner);
    });
}

// Rotates the pairs of a row by the angles whose cosines and sines are given.
inline void rotateRow(const Operation &o, const float *row, const float *cosines, const float *sines, float *out) {
    const Floats f;
    const uint32_t half = o.rotated / 2;
    const float sign = o.flags & VKATTN_ROTARY_INVERSE ? -1.0f : 1.0f;
    uint32_t i = 0;
    const bool together = o.pairs == VKATTN_PAIRS_INTERLEAVED;
    for (; i + lanes <= half; i += static_cast<uint32_t>(lanes)) {
        const auto c = hn::LoadU(f, cosines + i), s = hn::Mul(hn::LoadU(f, sines + i), hn::Set(f, sign));
        Vector x0, x1;
        if (together) {
            hn::LoadInterleaved2(f, row + 2 * i, x0, x1);
        } else {
            x0 = hn::LoadU(f, row + i);
            x1 = hn::LoadU(f, row + half + i);
        }
        const auto y0 = hn::NegMulAdd(x1, s, hn::Mul(x0, c)), y1 = hn::MulAdd(x1, c, hn::Mul(x0, s));
        if (together) {
            hn::StoreInterleaved2(y0, y1, f, out + 2 * i);
        } else {
            hn::StoreU(y0, f, out + i);
            hn::StoreU(y1, f, out + half + i);
        }
    }
    for (; i < half; ++i) {
        const uint32_t first = together ? 2 * i : i, second = together ? first + 1 : half + i;
        const float x0 = row[first], x1 = row[second], c = cosines[i], s = sines[i] * sign;
        out[first] = x0 * c - x1 * s;
        out[second] = x0 * s + x1 * c;
    }
    std::copy(row + o.rotated, row + o.inner, out + o.rotated);
}

inline void rotateRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Operation &o = call.o;
    const size_t room = wholeLines(o.inner);
    float *const row = scratch, *const out = scratch + room, *const table = scratch + 2 * room;
    const Tensor &x = o.tensor(VKATTN_X), &y = o.tensor(VKATTN_Y), &cosines = o.tensor(VKATTN_COS), &sines = o.tensor(VKATTN_SIN);
    forRowsOf(call, unit, [&](uint32_t b, uint32_t h, uint32_t t) HWY_ATTR {
        const uint64_t place = uint64_t{call.start(b)} + t, to = o.appends() ? place : t;
        if (to >= y.extent[2]) return;
        uint64_t position = o.has(VKATTN_POSITIONS) ? call.operands.word(VKATTN_POSITIONS, uint64_t{b} * o.rows + t) : place;
        position = std::min<uint64_t>(position, cosines.extent[2] - 1);
        const float *const from = rowOf(x, call.read(VKATTN_X), b, h, t, row);
        rotateRow(o, from, rowOf(cosines, call.read(VKATTN_COS), 0, 0, position, table),
                  rowOf(sines, call.read(VKATTN_SIN), 0, 0, position, table + room / 2), out);
        storeRow(y, call.write(VKATTN_Y), y.index(b, h, to, 0), out, o.inner);
    });
}

inline void appendRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Operation &o = call.o;
    const Tensor &x = o.tensor(VKATTN_X), &y = o.tensor(VKATTN_Y);
    forRowsOf(call, unit, [&](uint32_t b, uint32_t h, uint32_t t) HWY_ATTR {
        const TokenPlace to(call, b, t);
        if (!to.written) return;
        storeRow(y, call.write(VKATTN_Y), y.index(to.entry, h, to.row, 0), rowOf(x, call.read(VKATTN_X), b, h, t, scratch), o.inner);
    });
}

// A sum that is below what was added has passed 2^32.
inline void advanceWords(const OperationCall &call, uint64_t unit, float *) {
    const Operation &o = call.o;
    const Tensor &x = o.tensor(VKATTN_X), &y = o.tensor(VKATTN_Y);
    forRowsOf(call, unit, [&](uint32_t, uint32_t, uint32_t n) HWY_ATTR {
        const uint32_t sum = call.operands.word(VKATTN_X, x.index(0, 0, 0, n)) + o.by;
        const uint32_t word = sum < o.by ? o.limit : std::min(sum, o.limit);
        std::memcpy(call.write(VKATTN_Y) + 4 * y.index(0, 0, 0, n), &word, 4);
    });
}

// Runs of groups are summed up on their own: errors of many groups stay small.
inline void averageRows(const OperationCall &call, uint64_t unit, float *scratch) {
    constexpr uint32_t runGroups = 32;
    const Floats f;
    const Operation &o = call.o;
    const size_t room = wholeLines(o.inner);
    float *const mean = scratch, *const run = scratch + room, *const copy = scratch + 2 * room;
    const Tensor &x = o.tensor(VKATTN_X), &y = o.tensor(VKATTN_Y);
    const auto share = hn::Set(f, static_cast<float>(1.0 / o.averaged));
    std::fill(copy, copy + room, 0.0f); // past the end of the row too
    forRowsOf(call, unit, [&](uint32_t b, uint32_t, uint32_t r) HWY_ATTR {
        std::fill(mean, mean + room, 0.0f);
        for (uint32_t first = 0; first < o.averaged; first += runGroups) {
            std::fill(run, run + room, 0.0f);
            for (uint32_t g = first; g < std::min(o.averaged, first + runGroups); ++g) {
                copyRows(storedRows(x, call.read(VKATTN_X), b, g, r), 1, copy, 0);
                forVectors(o.inner, [&](uint32_t d) HWY_ATTR {
                    hn::Store(hn::MulAdd(hn::Load(f, copy + d), share, hn::Load(f, run + d)), f, run + d);
                });
            }
            forVectors(o.inner, [&](uint32_t d) HWY_ATTR { hn::Store(hn::Add(hn::Load(f, mean + d), hn::Load(f, run + d)), f, mean + d); });
        }
        storeRow(y, call.write(VKATTN_Y), y.index(b, 0, r, 0), mean, o.inner);
    });
}

// What a row of a merge multiplies each part with; less than 0: the part is ignored. Returns the log-sum-exp of the row.
HWY_INLINE float sharesOf(const OperationCall &call, uint32_t b, uint32_t g, uint32_t r, float *shares) {
    const Operation &o = call.o;
    const Tensor &lse = o.tensor(VKATTN_X_LSE);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    float maximum = -infinity;
    bool number = true;
    for (uint32_t t = 0; t < o.parts; ++t) {
        shares[t] = loadElement(call.read(VKATTN_X_LSE), VKATTN_F32, lse.index(uint64_t{t} * o.batch + b, g, r, 0));
        number = number && shares[t] < infinity; // false of NaN, too
        maximum = std::max(maximum, shares[t]);
    }
    double sum = 0;
    for (uint32_t t = 0; t < o.parts; ++t)
        if (!(shares[t] == -infinity)) sum += std::exp(static_cast<double>(shares[t]) - static_cast<double>(maximum));
    for (uint32_t t = 0; t < o.parts; ++t)
        shares[t] = shares[t] == -infinity ? -1
                    : number ? static_cast<float>(std::exp(static_cast<double>(shares[t]) - static_cast<double>(maximum)) / sum)
                             : nan;
    if (!number) return nan;
    return sum > 0 ? static_cast<float>(static_cast<double>(maximum) + std::log(sum)) : -infinity;
}

inline void mergeRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Floats f;
    const Operation &o = call.o;
    const size_t room = wholeLines(o.inner);
    float *const merged = scratch, *const copy = scratch + room, *const shares = scratch + 2 * room;
    const Tensor &x = o.tensor(VKATTN_X), &y = o.tensor(VKATTN_Y), &lse = o.tensor(VKATTN_LSE);
    std::fill(copy, copy + room, 0.0f); // past the end of the row too
    forRowsOf(call, unit, [&](uint32_t b, uint32_t g, uint32_t r) HWY_ATTR {
        const float sum = sharesOf(call, b, g, r, shares);
        std::fill(merged, merged + room, 0.0f);
        for (uint32_t t = 0; t < o.parts; ++t) {
            if (shares[t] < 0) continue;
            copyRows(storedRows(x, call.read(VKATTN_X), t * o.batch + b, g, r), 1, copy, 0);
            const auto share = hn::Set(f, shares[t]);
            forVectors(o.inner, [&](uint32_t d) HWY_ATTR {
                hn::Store(hn::MulAdd(hn::Load(f, copy + d), share, hn::Load(f, merged + d)), f, merged + d);
            });
        }
        storeRow(y, call.write(VKATTN_Y), y.index(b, g, r, 0), merged, o.inner);
        if (lse.present()) storeElement(call.write(VKATTN_LSE), VKATTN_F32, lse.index(b, g, r, 0), sum);
    });
}

// A round of sums and differences of what lies `distance` dims apart; log2(block) of them are the product. The dims are
// whole blocks.
HWY_INLINE void addAndSubtract(float *row, uint32_t dims, uint32_t distance) {
    const Floats f;
    for (uint32_t first = 0; first < dims; first += 2 * distance) {
        float *const low = row + first, *const high = low + distance;
        if (distance >= lanes) {
            for (uint32_t d = 0; d < distance; d += static_cast<uint32_t>(lanes)) {
                const auto a = hn::LoadU(f, low + d), b = hn::LoadU(f, high + d);
                hn::StoreU(hn::Add(a, b), f, low + d);
                hn::StoreU(hn::Sub(a, b), f, high + d);
            }
            continue;
        }
        for (uint32_t d = 0; d < distance; ++d) {
            const float a = low[d], b = high[d];
            low[d] = a + b, high[d] = a - b;
        }
    }
}

inline void hadamardRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Floats f;
    const Operation &o = call.o;
    const Tensor &x = o.tensor(VKATTN_X), &y = o.tensor(VKATTN_Y);
    const auto factor = hn::Set(f, static_cast<float>(1 / std::sqrt(static_cast<double>(o.block))));
    std::fill(scratch, scratch + wholeLines(o.inner), 0.0f); // past the end of the row too
    forRowsOf(call, unit, [&](uint32_t b, uint32_t g, uint32_t r) HWY_ATTR {
        copyRows(storedRows(x, call.read(VKATTN_X), b, g, r), 1, scratch, 0);
        for (uint32_t distance = 1; distance < o.block; distance *= 2) addAndSubtract(scratch, o.inner, distance);
        forVectors(o.inner, [&](uint32_t d) HWY_ATTR { hn::Store(hn::Mul(hn::Load(f, scratch + d), factor), f, scratch + d); });
        storeRow(y, call.write(VKATTN_Y), y.index(b, g, r, 0), scratch, o.inner);
    });
}

inline void keepBits(const OperationCall &call, uint64_t unit, float *) {
    const Operation &o = call.o;
    const Tensor &y = o.tensor(VKATTN_Y);
    forRowsOf(call, unit, [&](uint32_t b, uint32_t g, uint32_t r) HWY_ATTR {
        const DropoutPlane plane{o.seed, o.dropoutOffset, o.plane(b, g)};
        for (uint32_t word = 0; word < o.inner; ++word) {
            uint32_t bits = plane.keptBits(o.dropoutThreshold, r, word);
            if (const uint32_t rest = o.columns - 32 * word; rest < 32) bits &= (1u << rest) - 1;
            std::memcpy(call.write(VKATTN_Y) + 4 * y.index(b, g, r, word), &bits, 4);
        }
    });
}

// What is dropped is set to 0 first: its NaN stays out.
inline void dropRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Floats f;
    const Operation &o = call.o;
    const size_t room = wholeLines(o.inner);
    float *const row = scratch, *const added = scratch + room;
    const Tensor &x = o.tensor(VKATTN_X), &residual = o.tensor(VKATTN_RESIDUAL), &y = o.tensor(VKATTN_Y);
    std::fill(scratch, scratch + 2 * room, 0.0f); // past the ends of rows too
    const auto factor = hn::Set(f, static_cast<float>(dropoutFactor(o.dropoutThreshold)));
    forRowsOf(call, unit, [&](uint32_t b, uint32_t g, uint32_t r) HWY_ATTR {
        copyRows(storedRows(x, call.read(VKATTN_X), b, g, r), 1, row, 0);
        if (residual.present()) copyRows(storedRows(residual, call.read(VKATTN_RESIDUAL), b, g, r), 1, added, 0);
        const DropoutPlane plane{o.seed, o.dropoutOffset, o.plane(b, g)};
        for (uint32_t d = 0; o.dropoutThreshold && d < o.inner; d += 4) {
            const PhiloxCounter random = plane.words(o.firstRow + r, d / 4);
            for (uint32_t n = 0; n < 4; ++n)
                if (random.words[n] < o.dropoutThreshold) row[d + n] = 0; // the row goes on to whole cache lines
        }
        forVectors(o.inner, [&](uint32_t d) HWY_ATTR {
            const auto kept = hn::Mul(hn::Load(f, row + d), factor);
            hn::Store(residual.present() ? hn::Add(kept, hn::Load(f, added + d)) : kept, f, row + d);
        });
        storeRow(y, call.write(VKATTN_Y), y.index(b, g, r, 0), row, o.inner);
    });
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
