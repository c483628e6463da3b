#version 450
// Products of the slots of a chunk (lib/linear_gradient.h): of keys with queries and with keys, decayed from the one
// to the other, and of what tokens write with dOut. A lane has a pair; what belongs to the later slot comes first.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

void main() {
    beginUnit();
    const uint kindFirst = what & 0xffffu, kinds = what >> 16, perKind = chunkTokens * chunkTokens, index = gl_GlobalInvocationID.x;
    if (index >= chunks * kinds * perKind) return;
    const ChunkPlace c = chunkOf(index / perKind / kinds);
    const uint kind = kindFirst + index / perKind % kinds, later = index % perKind / chunkTokens, earlier = index % chunkTokens;
    float sum = 0.0;
    if (earlier <= later) {
        if (kind >= kindOfGiven()) {
            const uint given = arrayAt(c, linearGradientGiven) + ((kind - kindOfGiven()) * chunkTokens + later) * columnPitch,
                       values = arrayAt(c, linearGradientValues) + earlier * columnPitch;
            [[dont_unroll]] for (uint x = 0u; x < valueDim; ++x) sum = fma(workspaceFloat(given + x), workspaceFloat(values + x), sum);
        } else {
            const uint keys = arrayAt(c, linearGradientKeys), factors = arrayAt(c, linearGradientFactors);
            const uint left = kind < groupHeads() ? arrayAt(c, linearGradientRows) + (kind * chunkTokens + later) * rowPitch : keys + later * rowPitch;
            [[dont_unroll]] for (uint r = 0u; r < rows; ++r) {
                float right = workspaceFloat(keys + earlier * rowPitch + r);
                if (hasRowFactors)
                    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
                        const float factor = workspaceFloat(factors + s * rowPitch + r);
                        right *= s > earlier && s <= later ? factor : 1.0;
                    }
                sum = fma(workspaceFloat(left + r), right, sum);
            }
            if (isGated)
                [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
                    const float factor = workspaceFloat(factors + s);
                    sum *= s > earlier && s <= later ? factor : 1.0;
                }
        }
    }
    store(pairsAt(c, kind) + later * chunkTokens + earlier, sum);
}
