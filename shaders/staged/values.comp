#version 450
// Stage 3 of the staged path: out = weights V. Each lane owns rowsPerLane rows x dimsPerLane
// neighbouring value dims. A hidden pair is masked away, in bits, before the multiply-add: 0 * NaN
// is NaN, a key may be hidden from one row of a tile and visible to the next, and a compiler that
// assumes no NaN could drop a select between floats. Keys come in chunks where V is larger than a
// storage buffer may be; partial sums wait in the workspace in fp32.
#define VKATTN_STAGE_VALUES
#include "lib/platform.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
layout(constant_id = 8) const uint lanesAcrossDims = 8;
layout(constant_id = 9) const uint lanesAcrossRows = 8;
layout(constant_id = 10) const uint dimsPerLane = 4; // even
layout(constant_id = 11) const uint rowsPerLane = 4;
const bool exactDims = true;

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint head = gl_WorkGroupID.z % heads;
    beginSequence(gl_WorkGroupID.z / heads);
    const uint rowCount = rowsOf(seq);
    const uint tileRows = lanesAcrossRows * rowsPerLane, tileRow = gl_WorkGroupID.y * tileRows;
    if (tileRow >= rowCount) return;
    const uint firstRow = tileRow + lane / lanesAcrossDims;
    const uint firstDim = (gl_WorkGroupID.x * lanesAcrossDims + lane % lanesAcrossDims) * dimsPerLane;

    uint workspaceRow[rowsPerLane];
    [[unroll]] for (uint r = 0; r < rowsPerLane; ++r)
        workspaceRow[r] = (gl_WorkGroupID.z * queries + min(firstRow + r * lanesAcrossRows, rowCount - 1u)) * rowPitch;
    beginValues((headPhase + head) / groupSize);

    float sums[rowsPerLane * dimsPerLane];
    [[unroll]] for (uint n = 0; n < rowsPerLane * dimsPerLane; ++n) sums[n] = 0.0;
    // Goes on where the chunk before stopped: the chain of additions knows nothing of chunks.
    if ((flags & flagFirstKeys) == 0u) {
        [[unroll]] for (uint r = 0; r < rowsPerLane; ++r)
            [[unroll]] for (uint c = 0; c < dimsPerLane; ++c) {
                const uint row = min(firstRow + r * lanesAcrossRows, rowCount - 1u), dim = min(firstDim + c, valueDim - 1u);
                sums[r * dimsPerLane + c] = uintBitsToFloat(workspace[sumsBase + (gl_WorkGroupID.z * queries + row) * valueDim + dim]);
            }
    }

    const Reach reach = reachOf(tileRow, min(tileRow + tileRows, rowCount) - 1u, int(keyFirst), int(keyFirst + keys));
    if (hasSkips) beginTileOfRows(head, 1u, tileRow, min(tileRow + tileRows, rowCount) - 1u);
    for (int from = reach.begin; from < reach.end;) {
        Stretch stretch = Stretch(from, reach.end);
        if (hasSkips) stretch = nextKeys(from, reach.end);
        // Not fewer items at a time: some drivers count rounds of loops (attention/skip.glsl).
        stretch.end = max(stretch.end, stretch.begin + int(leastStretch));
        from = stretch.end;
        for (int j = stretch.begin; j < min(stretch.end, reach.end); ++j) {
            const KeyValueRow value = valueRow(j);
            // Dims past the end are computed on the last one and not stored.
            uint valueBits[dimsPerLane];
            [[unroll]] for (uint c = 0; c < dimsPerLane; ++c)
                valueBits[c] = floatBitsToUint(valueElement(value, min(firstDim + c, valueDim - 1u)));
            [[unroll]] for (uint r = 0; r < rowsPerLane; ++r) {
                const uint bits = workspace[workspaceRow[r] + uint(j)];
                // Hidden: -0 * 0, the one product that adds to any sum, -0 included, without changing a
                // bit of it.
                const uint visible = bits == hiddenBits ? 0u : 0xffffffffu;
                const float weight = uintBitsToFloat(bits == hiddenBits ? 0x80000000u : bits);
                [[unroll]] for (uint c = 0; c < dimsPerLane; ++c)
                    sums[r * dimsPerLane + c] = fma(weight, uintBitsToFloat(valueBits[c] & visible), sums[r * dimsPerLane + c]);
            }
        }
    }

    [[unroll]] for (uint r = 0; r < rowsPerLane; ++r) {
        const uint row = firstRow + r * lanesAcrossRows;
        if (row >= rowCount) continue;
        const uint outAt = oBase + batch * oBatch + head * oHead + (seq.queryStart + row) * oToken;
        if ((flags & flagLastKeys) == 0u) {
            const uint partialAt = sumsBase + (gl_WorkGroupID.z * queries + row) * valueDim + firstDim;
            [[unroll]] for (uint c = 0; c < dimsPerLane; ++c)
                if (firstDim + c < valueDim) workspace[partialAt + c] = floatBitsToUint(sums[r * dimsPerLane + c]);
            continue;
        }
        if ((form & formScaled) != 0u)
            [[unroll]] for (uint c = 0; c < dimsPerLane; ++c) sums[r * dimsPerLane + c] *= factor;
        [[unroll]] for (uint c = 0; c < dimsPerLane; c += 2u) {
            const uint dim = firstDim + c;
            if (dim + 1u < valueDim) {
                STORE_ELEMENT_PAIR(outWords, outType, outAt + dim * oDim, oDim, sums[r * dimsPerLane + c], sums[r * dimsPerLane + c + 1u])
            } else if (dim < valueDim) {
                STORE_ELEMENT(outWords, outType, outAt + dim * oDim, sums[r * dimsPerLane + c])
            }
        }
    }
}
