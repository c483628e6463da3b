#version 450
// Of FAVOR: exponents of keys become features relative to the running maxima, the change of a maximum a factor of the
// state's row, and exponents of queries are relative to the maximum that they meet. A lane has a row of the state and
// goes over all chunks of the dispatch.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

// exp(x - m), where m may be that of no key yet.
float relativeTo(float m, float x) {
    if (isNanBits(floatBitsToUint(x))) return x;
    return floatBitsToUint(m) == minusInfinityBits ? 0.0 : exp(x - m);
}

void main() {
    beginUnit();
    const uint row = gl_GlobalInvocationID.x;
    if (row >= rowPitch) return;
    float maximum = workspaceFloat(normOfState(statesAt() + stateFrom, 1u) + row);
    const float none = uintBitsToFloat(minusInfinityBits);
    [[dont_unroll]] for (uint local = 0u; local < chunks; ++local) {
        const ChunkPlace c = chunkOf(local);
        const uint keys = arrayAt(c, linearGradientKeys) + row, factors = arrayAt(c, linearGradientFactors) + row;
        const uint queries = arrayAt(c, linearGradientRows) + row;
        [[dont_unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            const float key = workspaceFloat(keys + s * rowPitch), before = maximum;
            maximum = key > maximum ? key : maximum; // takes no notice of a NaN: the sums are NaN then
            store(keys + s * rowPitch, relativeTo(maximum, key));
            store(factors + s * rowPitch, hasToken(c, s) ? relativeTo(maximum, before) : 1.0);
            if ((what & linearStatesOnly) == 0u)
                [[dont_unroll]] for (uint n = 0u; n < groupHeads(); ++n) {
                    const uint at = queries + (n * chunkTokens + s) * rowPitch;
                    store(at, floatBitsToUint(maximum) == minusInfinityBits ? none : workspaceFloat(at) + maximum);
                }
        }
    }
    store(normOfState(statesAt() + stateTo, 1u) + row, maximum);
}
