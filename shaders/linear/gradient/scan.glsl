// The part of a state that a lane has: some neighbours of the side in lanes, and a block of the other side, in registers.
//
// Defines: VKATTN_SUBGROUPS: neighbours of what all lanes multiply by come by one load and subgroup shuffles, as CPU
// devices have it; otherwise each by a load of its own.
#ifdef VKATTN_SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : enable
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "linear/gradient/chunk.glsl"

layout(constant_id = 11) const uint perLane = 8;      // of the side in registers
layout(constant_id = 12) const uint ownedPerLane = 1; // of the side in lanes
layout(constant_id = 13) const uint shuffleLanes = 4;  // with VKATTN_SUBGROUPS; divides perLane

const bool coversWhole = (form & formLinearWholeBlocks) != 0u;
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

#ifdef VKATTN_SUBGROUPS
const uint runLength = shuffleLanes;
#define LOAD_RUN(at) workspaceFloat((at) + gl_LocalInvocationID.x % shuffleLanes)
#define OF_RUN(loaded, e) subgroupShuffle(loaded, e)
#else
const uint runLength = 1u;
#define LOAD_RUN(at) workspaceFloat(at)
#define OF_RUN(loaded, e) (loaded)
#endif

// Products of the state with the vectors of the slots, [slot][pitch] from `at` on.
void multiplyState(uint at, uint pitch) {
    [[unroll]] for (uint n = 0u; n < ownCount; ++n) dots[n] = 0.0;
    at += blockFirst;
    [[unroll]] for (uint x = 0u; x < perLane; x += runLength) {
        float loaded[chunkTokens];
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) loaded[s] = LOAD_RUN(at + s * pitch + x);
        [[unroll]] for (uint e = 0u; e < runLength; ++e)
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
                const float each = OF_RUN(loaded[s], e);
                [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                    dots[s * ownedPerLane + v] = fma(each, state[(x + e) * ownedPerLane + v], dots[s * ownedPerLane + v]);
            }
    }
}
// Adds these vectors times what the lane has of each slot.
float coefficients[ownCount];
void addToState(uint at, uint pitch, uint count) {
    at += blockFirst;
    [[unroll]] for (uint x = 0u; x < perLane; x += runLength) {
        float loaded[chunkTokens];
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) loaded[s] = LOAD_RUN(at + s * pitch + x);
        [[unroll]] for (uint e = 0u; e < runLength; ++e)
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
                const float each = OF_RUN(loaded[s], e);
                [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
                    const uint n = (x + e) * ownedPerLane + v;
                    state[n] = fma(each, coefficients[s * ownedPerLane + v], state[n]);
                }
            }
    }
    // What is not there stays 0, whatever is added: 0 * infinity is NaN.
    if (!coversWhole)
        [[unroll]] for (uint n = 0u; n < perLane * ownedPerLane; ++n) state[n] = blockFirst + n / ownedPerLane < count ? state[n] : 0.0;
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
