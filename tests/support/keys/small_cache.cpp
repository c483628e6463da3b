#include "support/keys/small_cache.hpp"

namespace vkattn::test {
using namespace conform;
namespace {

HostTensor dequantized(const HostTensor &from) {
    const uint32_t *e = from.layout.extent;
    const uint32_t extent[4] = {e[0], e[1], e[2], e[3]};
    const vkattn_layout layout = makeLayout(VKATTN_F32, extent, Style::packed);
    HostTensor to;
    to.make(layout, uint64_t{e[0]} * e[1] * e[2] * e[3] * sizeof(float), 0);
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t t = 0; t < e[2]; ++t)
                for (uint32_t d = 0; d < e[3]; ++d) to.set(b, h, t, d, from.get(b, h, t, d));
    return to;
}

} // namespace

DequantizedProblem::DequantizedProblem(const CaseData &data) : k(dequantized(data.k)), problem(data.problem), operands(data.operands) {
    problem.k = k.layout;
    if (!data.c.keysHoldValues) {
        v = dequantized(data.v);
        problem.v = v.layout;
    }
    for (vkattn_operand_memory &operand : operands) {
        if (operand.role == VKATTN_K) operand.data = k.data(), operand.bytes = k.bytes();
        if (operand.role == VKATTN_V) operand.data = v.data(), operand.bytes = v.bytes();
    }
}

Case drawSmallCache(Random &random, uint32_t mostOptions) {
    constexpr vkattn_dtype types[] = {VKATTN_F32, VKATTN_F16, VKATTN_FP8_E4M3, VKATTN_FP8_E5M2, VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8};
    Case c = randomCase(random, mostOptions);
    c.valuesInKeys = false;
    // DequantizedProblem holds whole keys.
    c.segments = 0;
    c.k = types[between(random, 2, 6)];
    c.v = random() % 4 ? types[between(random, 2, 6)] : types[random() % 2];
    if (c.keysHoldValues) c.v = c.k;
    if (c.headDim < 30 && random() % 2)
        c.headDim += between(random, 20, 70), c.valueDim = c.keysHoldValues ? c.valueDim : c.valueDim + between(random, 20, 70);
    return c;
}

} // namespace vkattn::test
