#version 450
// Stage 3 of the staged path: out = weights V. Each lane owns rowsPerLane rows x dimsPerLane neighbouring value dims. A hidden pair is
// masked away, in bits, before the multiply-add: 0 * NaN is NaN, a key may be hidden from one row of a tile and visible to the next, and a
// compiler that assumes no NaN could drop a select between floats. Keys come
// in chunks where V is larger than a storage buffer may be; partial sums wait in the workspace in fp32.
#define VKATTN_STAGE_VALUES
#include "lib/stage.glsl"

layout(constant_id = 1) const uint lanesAcrossDims = 8;
layout(constant_id = 2) const uint lanesAcrossRows = 8;
layout(constant_id = 3) const uint dimsPerLane = 4; // even
layout(constant_id = 4) const uint rowsPerLane = 4;
layout(constant_id = 5) const bool vIsHalf = false;
layout(constant_id = 6) const bool outIsHalf = false;

layout(set = 0, binding = 0, std430) buffer Workspace { uint workspace[]; };
layout(set = 0, binding = 1, std430) readonly buffer V { uint v[]; };
layout(set = 0, binding = 2, std430) buffer Out { uint outWords[]; };
layout(set = 0, binding = 3, std430) readonly buffer Lengths { uint lengths[]; };

#include "lib/element.glsl"
#include "lib/position.glsl"

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint head = gl_WorkGroupID.z % heads, batch = gl_WorkGroupID.z / heads;
    const int keyCount = effectiveKeys(batch);
    const uint tileRows = lanesAcrossRows * rowsPerLane, tileRow = gl_WorkGroupID.y * tileRows;
    const uint firstRow = tileRow + lane / lanesAcrossDims;
    const uint firstDim = (gl_WorkGroupID.x * lanesAcrossDims + lane % lanesAcrossDims) * dimsPerLane;

    uint workspaceRow[rowsPerLane];
    [[unroll]] for (uint r = 0; r < rowsPerLane; ++r)
        workspaceRow[r] = (gl_WorkGroupID.z * queries + min(firstRow + r * lanesAcrossRows, queries - 1u)) * rowPitch;
    uint vAt[dimsPerLane]; // dims past the end are computed on the last one and not stored
    const uint vHeadAt = vBase + batch * vBatch + ((headPhase + head) / groupSize) * vHead;
    [[unroll]] for (uint c = 0; c < dimsPerLane; ++c) vAt[c] = vHeadAt + min(firstDim + c, valueDim - 1u) * vDim;

    float sums[rowsPerLane * dimsPerLane];
    [[unroll]] for (uint n = 0; n < rowsPerLane * dimsPerLane; ++n) sums[n] = 0.0;

    const int begin = max(keyBegin(tileRow, keyCount), int(keyFirst));
    const int end = min(keyEnd(min(tileRow + tileRows, queries) - 1u, keyCount), int(keyFirst + keys));
    for (int j = begin; j < end; ++j) {
        uint valueBits[dimsPerLane];
        [[unroll]] for (uint c = 0; c < dimsPerLane; ++c) valueBits[c] = floatBitsToUint(LOAD_ELEMENT(v, vIsHalf, vAt[c] + (uint(j) - keyFirst) * vToken));
        [[unroll]] for (uint r = 0; r < rowsPerLane; ++r) {
            const uint bits = workspace[workspaceRow[r] + uint(j)];
            const uint visible = bits == hiddenBits ? 0u : 0xffffffffu;
            const float weight = uintBitsToFloat(bits & visible);
            [[unroll]] for (uint c = 0; c < dimsPerLane; ++c)
                sums[r * dimsPerLane + c] = fma(weight, uintBitsToFloat(valueBits[c] & visible), sums[r * dimsPerLane + c]);
        }
    }

    [[unroll]] for (uint r = 0; r < rowsPerLane; ++r) {
        const uint row = firstRow + r * lanesAcrossRows;
        if (row >= queries) continue;
        const uint partialAt = sumsBase + (gl_WorkGroupID.z * queries + row) * valueDim;
        const uint outAt = oBase + batch * oBatch + head * oHead + row * oToken;
        [[unroll]] for (uint c = 0; c < dimsPerLane; ++c)
            if ((flags & flagFirstKeys) == 0u && firstDim + c < valueDim)
                sums[r * dimsPerLane + c] += uintBitsToFloat(workspace[partialAt + firstDim + c]);
        if ((flags & flagLastKeys) == 0u) {
            [[unroll]] for (uint c = 0; c < dimsPerLane; ++c)
                if (firstDim + c < valueDim) workspace[partialAt + firstDim + c] = floatBitsToUint(sums[r * dimsPerLane + c]);
            continue;
        }
        [[unroll]] for (uint c = 0; c < dimsPerLane; c += 2u) {
            const uint dim = firstDim + c;
            if (dim + 1u < valueDim) {
                STORE_ELEMENT_PAIR(outWords, outIsHalf, outAt + dim * oDim, oDim, sums[r * dimsPerLane + c], sums[r * dimsPerLane + c + 1u])
            } else if (dim < valueDim) {
                STORE_ELEMENT(outWords, outIsHalf, outAt + dim * oDim, sums[r * dimsPerLane + c])
            }
        }
    }
}
