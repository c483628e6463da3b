#version 450
// Of FAVOR: features of queries, relative to the largest term of the row. A lane has a row of out.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

void main() {
    beginUnit();
    const uint perChunk = groupHeads() * chunkTokens, index = gl_GlobalInvocationID.x;
    if (index >= chunks * perChunk) return;
    const uint at = arrayAt(chunkOf(index / perChunk), linearGradientRows) + index % perChunk * rowPitch;
    float most = uintBitsToFloat(minusInfinityBits);
    [[dont_unroll]] for (uint r = 0u; r < rows; ++r) {
        const float each = workspaceFloat(at + r);
        most = each > most ? each : most;
    }
    most = floatBitsToUint(most) == minusInfinityBits ? 0.0 : most;
    [[dont_unroll]] for (uint r = 0u; r < rows; ++r) {
        const float each = workspaceFloat(at + r);
        store(at + r, floatBitsToUint(each) == minusInfinityBits ? 0.0 : isNanBits(floatBitsToUint(each)) ? each : exp(each - most));
    }
    [[dont_unroll]] for (uint r = rows; r < rowPitch; ++r) store(at + r, 0.0);
}
