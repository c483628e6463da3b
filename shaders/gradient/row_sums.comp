#version 450
// Sums of what rows add to dSinks, dSlopes, dScale and dSoftcap (gradient/pair_deltas.comp). A workgroup
// has one sum, and a lane every `lanes`-th query of the problem, whatever the chunk: what lanes have
// summed up waits in the workspace for the next chunk, and the last chunk's lanes are summed up in
// order.
#define VKATTN_STAGE_ROW_SUMS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory

#include "attention/operands.glsl"

shared float laneSum[lanes];

void main() {
    const uint lane = gl_LocalInvocationID.x, own = gl_WorkGroupID.x;
    const uint carryAt = carryBase + own * lanes + lane;
    float sum = (flags & flagFirstRows) != 0u ? 0.0 : uintBitsToFloat(workspace[carryAt]);
    const uint headBegin = perHead != 0u ? own : 0u, headEnd = perHead != 0u ? own + 1u : heads;
    const uint firstOfLane = (lane + lanes - queryFirst % lanes) % lanes;
    for (uint b = 0u; b < batches; ++b)
        for (uint h = headBegin; h < headEnd; ++h)
            for (uint row = firstOfLane; row < queries; row += lanes)
                sum += uintBitsToFloat(workspace[sumsBase + ((b * heads + h) * queries + row) * rowSumWords + number]);
    if ((flags & flagLastRows) == 0u) {
        workspace[carryAt] = floatBitsToUint(sum);
        return;
    }
    laneSum[lane] = sum;
    barrier();
    if (lane != 0u) return;
    sum = 0.0;
    for (uint n = 0u; n < lanes; ++n) sum += laneSum[n];
    outWords[outBase + own] = floatBitsToUint(factor * sum);
}
