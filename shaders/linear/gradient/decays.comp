#version 450
// Where each row of the state has factors of its own: keys decayed to the end of their chunk, queries and, for the delta
// rules, keys decayed from its beginning, and what the chunk multiplies rows of the state by. A lane has a row of the
// state and a chunk. Factors are multiplied up, and never divided by.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

void main() {
    beginUnit();
    const uint index = gl_GlobalInvocationID.x, row = index % rowPitch;
    if (index >= chunks * rowPitch) return;
    const ChunkPlace c = chunkOf(index / rowPitch);
    const uint keys = arrayAt(c, linearGradientKeys) + row, factors = arrayAt(c, linearGradientFactors) + row,
               queries = arrayAt(c, linearGradientRows) + row, keysToEnd = arrayAt(c, linearGradientKeysToEnd) + row,
               fromStart = arrayAt(c, linearGradientRowsFromStart) + row;
    float f[chunkTokens], k[chunkTokens];
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        f[s] = workspaceFloat(factors + s * rowPitch);
        k[s] = workspaceFloat(keys + s * rowPitch);
    }
    float toEnd = 1.0;
    [[unroll]] for (uint n = 0u; n < chunkTokens; ++n) {
        const uint s = chunkTokens - 1u - n;
        store(keysToEnd + s * rowPitch, k[s] * toEnd);
        toEnd *= f[s];
    }
    store(arrayAt(c, linearGradientChunkFactors) + row, toEnd);
    float kept = 1.0;
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        kept *= f[s];
        f[s] = kept;
    }
    [[dont_unroll]] for (uint n = 0u; n < groupHeads(); ++n)
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            const uint at = (n * chunkTokens + s) * rowPitch;
            store(fromStart + at, workspaceFloat(queries + at) * f[s]);
        }
    if (isDelta)
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
            store(fromStart + (groupHeads() * chunkTokens + s) * rowPitch, k[s] * f[s]);
}
