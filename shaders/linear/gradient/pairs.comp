#version 450
// Products of the slots of a chunk (lib/linear_gradient.h): of keys with queries and with keys, decayed from the one
// to the other, and of what tokens write with dOut. A lane has the later slot and all slots up to it, so that what it
// loads of its own is for all of them, and decays are multiplied up on the way.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

float sums[chunkTokens];

// `left`: the later slot's, `right`: [slot][pitch].
void multiply(uint left, uint right, uint pitch, uint count, uint factors, uint later, const bool decayed) {
    [[dont_unroll]] for (uint x = 0u; x < count; ++x) {
        float own = workspaceFloat(left + x);
        [[unroll]] for (uint n = 0u; n < chunkTokens; ++n) {
            const uint s = chunkTokens - 1u - n;
            sums[s] = fma(own, workspaceFloat(right + s * pitch + x), sums[s]);
            if (decayed) {
                const float factor = workspaceFloat(factors + s * rowPitch + x);
                own *= s <= later ? factor : 1.0;
            }
        }
    }
}

void main() {
    beginUnit();
    const uint kindFirst = what & 0xffffu, kinds = what >> 16, index = gl_GlobalInvocationID.x;
    if (index >= chunks * kinds * chunkTokens) return;
    const ChunkPlace c = chunkOf(index / chunkTokens / kinds);
    const uint kind = kindFirst + index / chunkTokens % kinds, later = index % chunkTokens;
    const uint keys = arrayAt(c, linearGradientKeys), factors = arrayAt(c, linearGradientFactors);
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) sums[s] = 0.0;
    if (kind >= kindOfGiven()) {
        const uint given = arrayAt(c, linearGradientGiven) + ((kind - kindOfGiven()) * chunkTokens + later) * columnPitch;
        multiply(given, arrayAt(c, linearGradientValues), columnPitch, valueDim, 0u, later, false);
    } else {
        const uint left = kind < groupHeads() ? arrayAt(c, linearGradientRows) + (kind * chunkTokens + later) * rowPitch : keys + later * rowPitch;
        multiply(left, keys, rowPitch, rows, factors, later, hasRowFactors);
        float decay = 1.0;
        [[unroll]] for (uint n = 0u; n < chunkTokens; ++n) {
            const uint s = chunkTokens - 1u - n;
            if (!isGated) continue;
            const float factor = workspaceFloat(factors + s);
            sums[s] *= decay;
            decay *= s <= later ? factor : 1.0;
        }
    }
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) store(pairsAt(c, kind) + later * chunkTokens + s, s <= later ? sums[s] : 0.0);
}
