// From weighted sums to what the caller gets.
#include "cpu/attention.hpp"

#include <cmath>
#include <limits>

namespace vkattn {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// exp(a - b), where b is at least a; 0 where both are minus infinity: nothing has been summed.
float factorTo(float a, float b) {
    return a == -infinity ? 0.0f : std::exp(a - b);
}

} // namespace

void finishRow(const Call &call, const Sequence &s, const RowPlace &place, const float *out, float &maximum, float &sum, bool seen) {
    const Problem &p = call.p;
    const float sink = p.has(VKATTN_SINKS) ? call.operands.number(VKATTN_SINKS, place.head) : -infinity;
    float factor = 0; // of the outputs
    float lse = sink;
    if (seen) {
        // All scores minus infinity, and visible: no softmax is defined for them, as exp(-inf - -inf) says.
        if (maximum == -infinity && sink == -infinity) sum = std::numeric_limits<float>::quiet_NaN();
        if (sink != -infinity) {
            const float top = maximum > sink ? maximum : sink; // a NaN sink wins, a NaN maximum is in the sum already
            factor = factorTo(maximum, top);
            sum = sum * factor + std::exp(sink - top);
            maximum = top;
            factor /= sum;
        } else {
            factor = 1 / sum;
        }
        lse = maximum + std::log(sum);
    }
    const Tensor &to = p.tensor(VKATTN_OUT), &lses = p.tensor(VKATTN_LSE);
    unsigned char *data = call.operands.data[VKATTN_OUT];
    const uint64_t step = static_cast<uint64_t>(to.stride[3]);
    uint64_t at = to.index(s.batch, place.head, s.query(place.query), 0);
    if (!seen) {
        for (uint32_t d = 0; d < p.valueDim; ++d, at += step) storeElement(data, to.dtype, at, 0.0f);
    } else if (to.dtype == VKATTN_F32 && to.unitDims()) {
        float *row = reinterpret_cast<float *>(data) + at;
        for (uint32_t d = 0; d < p.valueDim; ++d) row[d] = out[d] * factor;
    } else {
        for (uint32_t d = 0; d < p.valueDim; ++d, at += step) storeElement(data, to.dtype, at, out[d] * factor);
    }
    if (lses.present())
        storeElement(call.operands.data[VKATTN_LSE], VKATTN_F32, lses.index(s.batch, place.head, s.query(place.query), 0), lse);
}

void joinPieces(const Call &call, const SequencePlan &plan, uint32_t kvHead, float *row) {
    const uint32_t rows = plan.s.queries * call.p.groupSize(), dims = call.p.valueDim;
    const size_t stride = call.partialFloats();
    const float *pieces = call.partials + plan.partialsBefore + size_t{kvHead} * plan.splits * rows * stride;
    for (uint32_t r = 0; r < rows; ++r) {
        std::fill(row, row + dims, 0.0f);
        float maximum = -infinity, sum = 0;
        bool seen = false;
        for (uint32_t piece = 0; piece < plan.splits; ++piece) {
            const float *from = pieces + (size_t{piece} * rows + r) * stride;
            if (from[dims + 2] == 0) continue;
            seen = true;
            const float top = from[dims] > maximum ? from[dims] : maximum; // a NaN is in the sum already
            const float a = factorTo(maximum, top), c = factorTo(from[dims], top);
            for (uint32_t d = 0; d < dims; ++d) row[d] = row[d] * a + from[d] * c;
            sum = sum * a + from[dims + 1] * c;
            maximum = top;
        }
        finishRow(call, plan.s, placeOf(call.p, plan.s, kvHead, r), row, maximum, sum, seen);
    }
}

} // namespace vkattn
