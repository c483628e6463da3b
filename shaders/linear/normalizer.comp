#version 450
// The normaliser z of features, and their running maxima: both before each chunk of keys, which prepare.comp
// reads, and behind the last. A lane has a feature and goes over all chunks of the dispatch.
#define VKATTN_STAGE_LINEAR
#include "lib/platform.glsl"

#include "linear/chunk.glsl"

layout(set = 0, binding = slotLinearK, std430) readonly buffer K { uint k[]; };
layout(set = 0, binding = slotLinearStateIn, std430) readonly buffer StateIn { uint stateIn[]; };
layout(set = 0, binding = slotLinearStateOut, std430) buffer StateOut { uint stateOut[]; };
layout(set = 0, binding = slotLinearSnapshots, std430) buffer Snapshots { uint snapshots[]; };

uint row;
float z, maximum;

uint atOf(Place place) { return place.at + row * place.token + valueDim * place.dim; }
Place keyPlace;
float keyOf(ChunkPlace c, uint s) {
    if (isStored) return workspaceFloat(arrayAt(c, linearKeyMapAt, 0u, s) + row);
    const float key = LOAD_ELEMENT(k, kType, keyPlace.at + uint(c.first + int(s)) * keyPlace.token + row * keyPlace.dim);
    return featureOf(key);
}
float storedMaximum() { return floatBitsToUint(maximum) == minusInfinityBits ? 0.0 : maximum; }

void main() {
    beginUnit();
    row = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const bool mine = row < rows;
    row = min(row, rows - 1u);
    if (!isStored) keyPlace = placeOf(linearK, kBase, stateHead, stateHeads);
    const float none = uintBitsToFloat(minusInfinityBits);
    z = 0.0;
    maximum = none;
    if ((span & spanFirst) == 0u) {
        z = workspaceFloat(stateNormAt(0u) + row);
        maximum = workspaceFloat(stateNormAt(1u) + row);
    } else if (hasStateIn) {
        const Place place = placeOf(linearStateIn, stateInBase, stateHead, stateHeads);
        z = uintBitsToFloat(stateIn[atOf(place)]);
        if (hasMaximum && z != 0.0) maximum = uintBitsToFloat(stateIn[atOf(place) + place.dim]);
    }
    [[dont_unroll]] for (uint local = 0u; local < chunks; ++local) {
        const ChunkPlace c = chunkOf(local);
        if (mine) {
            workspace[normAt(c, 0u) + row] = floatBitsToUint(z);
            workspace[normAt(c, 1u) + row] = floatBitsToUint(maximum);
        }
        float keys[chunkTokens];
        float top = maximum;
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            keys[s] = hasMaximum ? none : 0.0;
            if (hasToken(c, s)) keys[s] = keyOf(c, s);
            if (hasMaximum) top = largerOf(top, keys[s]);
        }
        if (hasMaximum) z *= floatBitsToUint(maximum) == minusInfinityBits ? 0.0 : exp(maximum - top);
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
            if (hasToken(c, s)) z += hasMaximum ? relativeTo(top, keys[s]) : keys[s];
        maximum = top;
        const uint chunk = chunkFirst + local;
        if (mine && endsSnapshot(chunk)) {
            const Place place = placeOf(linearSnapshots, snapshotsBase, stateHead, stateHeads);
            const uint at = atOf(place) + chunk / chunksPerSnapshot * rows * place.token;
            snapshots[at] = floatBitsToUint(z);
            if (hasMaximum) snapshots[at + place.dim] = floatBitsToUint(storedMaximum());
        }
    }
    if (!mine) return;
    workspace[stateNormAt(0u) + row] = floatBitsToUint(z);
    workspace[stateNormAt(1u) + row] = floatBitsToUint(maximum);
    if (hasStateOut && (span & spanLast) != 0u) {
        const Place place = placeOf(linearStateOut, stateOutBase, stateHead, stateHeads);
        stateOut[atOf(place)] = floatBitsToUint(z);
        if (hasMaximum) stateOut[atOf(place) + place.dim] = floatBitsToUint(storedMaximum());
    }
}
