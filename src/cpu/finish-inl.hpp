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

// Attention over other keys that a row goes on from.
struct PriorRow {
    float lse = minusInfinity, weight = 0; // weight: its share of the whole sum

    PriorRow(const Call &call, const Sequence &s, const RowPlace &place) : call_(call) {
        const Tensor &t = call.p.tensor(VKATTN_PRIOR_LSE);
        if (!t.present()) return;
        token_ = s.query(place.query), batch_ = s.batch, head_ = place.head;
        lse = loadElement(call.operands.data[VKATTN_PRIOR_LSE], VKATTN_F32, t.index(batch_, head_, token_, 0));
    }
    [[nodiscard]] bool sawSomething() const { return lse != minusInfinity; }
    // Adds the prior sum to that of a row, whose exponents are less `maximum`. Returns the factor of the row's outputs.
    float addTo(float &maximum, float &sum) {
        // A NaN wins, and infinity becomes one.
        const float top = maximum > lse ? maximum : lse, factor = factorTo(maximum, top);
        weight = std::exp(lse - top);
        sum = sum * factor + weight;
        weight /= sum;
        maximum = top;
        return factor;
    }
    // Stores sums * factor + weight * priorOut, where sums is not NULL. The output may be the memory of priorOut.
    void store(const Tensor &t, unsigned char *data, const float *sums, float factor) const {
        const Tensor &own = call_.p.tensor(VKATTN_PRIOR_OUT);
        for (uint32_t d = 0; d < t.extent[3]; ++d) {
            const float value = loadElement(call_.operands.data[VKATTN_PRIOR_OUT], own.dtype, own.index(batch_, head_, token_, d));
            storeElement(data, t.dtype, t.index(batch_, head_, token_, d), (sums ? sums[d] * factor : 0.0f) + weight * value);
        }
    }

  private:
    const Call &call_;
    uint64_t token_ = 0;
    uint32_t batch_ = 0, head_ = 0;
};

// Adds the sink and what the row goes on from, and writes the row's output, and its log-sum-exp or statistics. `out`
// holds the weighted sum of values with exponents less `maximum`, and `sum` holds the sum of the weights.
// Leaves in maximum and sum the numbers that the weights are computed with.
inline void finishRow(const Call &call, const Sequence &s, const RowPlace &place, const float *out, float &maximum, float &sum, bool seen) {
    const Problem &p = call.p;
    const float sink = call.operands.sink(p, place.head);
    PriorRow prior(call, s, place);
    const bool goesOn = prior.sawSomething();
    float factor = 0; // factor of the outputs
    if (!seen && goesOn) maximum = minusInfinity, sum = 0;
    if (seen || goesOn) {
        // All visible scores are minus infinity: no softmax is defined for them, as exp(-inf -
        // -inf) says.
        if (maximum == minusInfinity && sink == minusInfinity && !goesOn) sum = std::numeric_limits<float>::quiet_NaN();
        factor = 1;
        if (sink != minusInfinity) {
            // A NaN sink wins. A NaN maximum is in the sum already.
            const float top = maximum > sink ? maximum : sink;
            factor = factorTo(maximum, top);
            sum = sum * factor + std::exp(sink - top);
            maximum = top;
        }
        if (goesOn) factor *= prior.addTo(maximum, sum);
        if (!p.program.sumless()) factor /= sum;
        if (p.drops()) factor *= static_cast<float>(dropoutFactor(p.dropoutThreshold));
    }
    const Tensor &lses = p.tensor(VKATTN_LSE), &outs = p.tensor(VKATTN_OUT);
    if (goesOn)
        prior.store(outs, call.operands.data[VKATTN_OUT], seen ? out : nullptr, factor);
    else
        storeOut(outs, call.operands.data[VKATTN_OUT], s, place, out, factor, seen);
    if (!lses.present()) return;
    const auto store = [&](uint32_t n, float value) {
        storeElement(call.operands.data[VKATTN_LSE], VKATTN_F32, lses.index(s.batch, place.head, s.query(place.query), n), value);
    };
    if (!p.rowStatistics) return store(0, seen || goesOn ? maximum + std::log(sum) : sink);
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
