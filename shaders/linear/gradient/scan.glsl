// The part of a state that a lane has: some neighbours of the side in lanes, and a block of the other side, in registers.
#include "linear/gradient/chunk.glsl"

layout(constant_id = 11) const uint perLane = 8;       // of the side in registers
layout(constant_id = 12) const uint ownedPerLane = 1; // of the side in lanes

const bool coversWhole = (form & formLinearWholeColumns) != 0u;
const uint ownCount = chunkTokens * ownedPerLane;

float state[perLane * ownedPerLane];
float dots[ownCount]; // of slots with the state

uint block, blockFirst, firstOwned;
bool isFirstBlock; // which has what all blocks have in common
// `tiles` of the side in lanes, so many of it.
void beginTile(uint owned) {
    const uint tile = gl_WorkGroupSize.x * ownedPerLane, tiles = (owned + tile - 1u) / tile;
    block = gl_WorkGroupID.x / tiles;
    blockFirst = block * perLane;
    isFirstBlock = block == 0u;
    firstOwned = gl_WorkGroupID.x % tiles * tile + gl_LocalInvocationID.x;
}
uint ownedAt(uint v) { return firstOwned + v * gl_WorkGroupSize.x; }

// Products of the state with the vectors of the slots, [slot][pitch] from `at` on.
void multiplyState(uint at, uint pitch) {
    [[unroll]] for (uint n = 0u; n < ownCount; ++n) dots[n] = 0.0;
    at += blockFirst;
    [[unroll]] for (uint x = 0u; x < perLane; ++x)
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            const float each = workspaceFloat(at + s * pitch + x);
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                dots[s * ownedPerLane + v] = fma(each, state[x * ownedPerLane + v], dots[s * ownedPerLane + v]);
        }
}
// Adds these vectors times what the lane has of each slot.
float coefficients[ownCount];
void addToState(uint at, uint pitch, uint count) {
    at += blockFirst;
    [[unroll]] for (uint x = 0u; x < perLane; ++x) {
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            const float each = workspaceFloat(at + s * pitch + x);
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                state[x * ownedPerLane + v] = fma(each, coefficients[s * ownedPerLane + v], state[x * ownedPerLane + v]);
        }
        // What is not there stays 0, whatever is added: 0 * infinity is NaN.
        if (!coversWhole)
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                state[x * ownedPerLane + v] = blockFirst + x < count ? state[x * ownedPerLane + v] : 0.0;
    }
}

// The state as it lies in the workspace: neighbours of the side in lanes are neighbours there.
void loadState(uint at, uint pitch, uint owned) {
    [[unroll]] for (uint x = 0u; x < perLane; ++x)
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
            state[x * ownedPerLane + v] = workspaceFloat(at + (blockFirst + x) * pitch + min(ownedAt(v), owned - 1u));
}
void storeState(uint at, uint pitch, uint owned) {
    [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
        if (ownedAt(v) < owned)
            [[unroll]] for (uint x = 0u; x < perLane; ++x) store(at + (blockFirst + x) * pitch + ownedAt(v), state[x * ownedPerLane + v]);
}
