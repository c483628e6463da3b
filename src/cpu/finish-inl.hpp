// The end of a row, from weighted sums to the outputs of the caller, for one Highway target.
#if defined(VKATTN_CPU_FINISH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_FINISH_INL_HPP
#undef VKATTN_CPU_FINISH_INL_HPP
#else
#define VKATTN_CPU_FINISH_INL_HPP
#endif

#include "cpu/attention.hpp"
#include "problem/dropout.hpp"

#include <cmath>

#include "cpu/pair_rules-inl.hpp"
#include "cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// Stores a row of the output: out * factor as the stored type, or zeros where the row saw nothing.
inline void storeOut(const Tensor &t, unsigned char *data, const Sequence &s, const RowPlace &place, const float *out, float factor,
                     bool seen) {
    const uint32_t dims = t.extent[3];
    const uint64_t at = t.index(s.batch, place.head, s.query(place.query), 0), step = static_cast<uint64_t>(t.stride[3]);
    uint32_t d = 0;
    if (seen && t.unitDims()) {
        const auto scaled = hn::Set(Floats(), factor);
        constexpr auto count = static_cast<uint32_t>(lanes);
        for (; d + count <= dims; d += count) storeFloats(hn::Mul(loadFloats(out + d), scaled), data, t.dtype, at + d);
    }
    for (; d < dims; ++d) storeElement(data, t.dtype, at + d * step, seen ? out[d] * factor : 0.0f);
}

// Returns exp(a - b), where b is at least a. Returns 0 where both are minus infinity: nothing has
// been summed.
inline float factorTo(float a, float b) {
    return a == minusInfinity ? 0.0f : std::exp(a - b);
}

// Adds the sink, and writes the row's output, and its log-sum-exp or statistics. `out` holds the
// weighted sum of values with exponents less `maximum`, and `sum` holds the sum of the weights.
// Leaves in maximum and sum the numbers that the weights are computed with.
inline void finishRow(const Call &call, const Sequence &s, const RowPlace &place, const float *out, float &maximum, float &sum, bool seen) {
    const Problem &p = call.p;
    const float sink = p.has(VKATTN_SINKS) ? call.operands.number(VKATTN_SINKS, place.head) : minusInfinity;
    float factor = 0; // factor of the outputs
    if (seen) {
        // All visible scores are minus infinity: no softmax is defined for them, as exp(-inf -
        // -inf) says.
        if (maximum == minusInfinity && sink == minusInfinity) sum = std::numeric_limits<float>::quiet_NaN();
        if (sink != minusInfinity) {
            // A NaN sink wins. A NaN maximum is in the sum already.
            const float top = maximum > sink ? maximum : sink;
            factor = factorTo(maximum, top);
            sum = sum * factor + std::exp(sink - top);
            maximum = top;
            factor /= sum;
        } else {
            factor = p.program.sumless() ? 1 : 1 / sum;
        }
        if (p.drops()) factor *= static_cast<float>(dropoutFactor(p.dropoutThreshold));
    }
    const Tensor &lses = p.tensor(VKATTN_LSE);
    storeOut(p.tensor(VKATTN_OUT), call.operands.data[VKATTN_OUT], s, place, out, factor, seen);
    if (!lses.present()) return;
    const auto store = [&](uint32_t n, float value) {
        storeElement(call.operands.data[VKATTN_LSE], VKATTN_F32, lses.index(s.batch, place.head, s.query(place.query), n), value);
    };
    if (!p.rowStatistics) return store(0, seen ? maximum + std::log(sum) : sink);
    if (seen && std::isnan(sum)) maximum = sum = std::numeric_limits<float>::quiet_NaN(); // the maximum may have passed a NaN over
    store(0, seen ? maximum : sink);
    store(1, seen ? sum : sink == minusInfinity ? 0.0f : 1.0f);
}

// Joins the splits of all rows of a sequence's key/value head, and finishes the rows.
inline void joinSplits(const Call &call, const SequencePlan &plan, uint32_t kvHead, float *row) {
    const uint32_t rows = plan.s.queries * call.p.groupSize(), dims = call.p.valueDim;
    const size_t stride = call.partialFloats();
    const float *splits = call.partials + plan.partialsBefore + size_t{kvHead} * plan.splits * rows * stride;
    for (uint32_t r = 0; r < rows; ++r) {
        std::fill(row, row + dims, 0.0f);
        float maximum = minusInfinity, sum = 0;
        bool seen = false;
        for (uint32_t split = 0; split < plan.splits; ++split) {
            const float *from = splits + (size_t{split} * rows + r) * stride;
            if (from[dims + 2] == 0) continue;
            seen = true;
            // A NaN is in the sum already.
            const float top = from[dims] > maximum ? from[dims] : maximum;
            const float a = factorTo(maximum, top), c = factorTo(from[dims], top);
            for (uint32_t d = 0; d < dims; ++d) row[d] = row[d] * a + from[d] * c;
            sum = sum * a + from[dims + 1] * c;
            maximum = top;
        }
        finishRow(call, plan.s, placeOf(call.p, plan.s, kvHead, r), row, maximum, sum, seen);
    }
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
