#version 450
// dV and dK: for each key the sum of rows of dOut or Q, over all query heads of the key head's group,
// with the weights or dz of the workspace: out_j = factor * sum over heads, then rows, of m_ij r_i. Each
// lane owns keysPerLane keys x dimsPerLane neighbouring dims. A hidden pair is masked away, in bits,
// before the multiply-add, as in staged/values.comp. A group's rows may lie in several chunks: the next
// chunk goes on where the one before stopped, so that the chain of additions knows nothing of chunks.
// Meanwhile the sums of the key head that a chunk ends in wait, in fp32: in the output itself where
// that is f32, and otherwise (formCarried) in the workspace, in one place of two in turn: the head
// that goes on and the one that waits may be two.
#define VKATTN_STAGE_COLUMNS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanesAcrossDims = 8;
layout(constant_id = 9) const uint lanesAcrossKeys = 8;
layout(constant_id = 10) const uint dimsPerLane = 4; // even
layout(constant_id = 11) const uint keysPerLane = 4;

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "lib/element.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
const bool carried = (form & formCarried) != 0u;
const uint rowType = qType;

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint keyHead = gl_WorkGroupID.z % keyHeads;
    beginSequence(gl_WorkGroupID.z / keyHeads);
    // Keys past a key length have a gradient of 0; what lies past a sequence of a ragged batch is
    // nobody's.
    const uint keyCount = (flags & flagRagged) != 0u ? keysOf(seq) : keys;
    const uint tileKeys = lanesAcrossKeys * keysPerLane, tileKey = gl_WorkGroupID.y * tileKeys;
    if (tileKey >= keyCount) return;
    const uint firstKey = tileKey + lane / lanesAcrossDims;
    const uint firstDim = (gl_WorkGroupID.x * lanesAcrossDims + lane % lanesAcrossDims) * dimsPerLane;
    uint key[keysPerLane]; // of the chunk; past the end the last one, which is not stored
    [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) key[c] = min(firstKey + c * lanesAcrossKeys, keyCount - 1u);

    // The query heads of the group that the chunk has.
    const uint groupBegin = keyHead * groupSize;
    const uint headBegin = max(groupBegin, headPhase) - headPhase, headEnd = min(groupBegin + groupSize - headPhase, heads);
    const bool goesOn = keyHead == 0u && (flags & flagFirstRows) == 0u;
    const bool waits = keyHead + 1u == keyHeads && (flags & flagLastRows) == 0u;

    float sums[keysPerLane * dimsPerLane];
    [[unroll]] for (uint n = 0u; n < keysPerLane * dimsPerLane; ++n) sums[n] = 0.0;
    const uint outHead = oBase + batch * oBatch + keyHead * oHead + seq.keyStart * oToken;
    if (goesOn) {
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c)
            [[unroll]] for (uint d = 0u; d < dimsPerLane; ++d) {
                const uint dim = min(firstDim + d, dims - 1u);
                sums[c * dimsPerLane + d] = uintBitsToFloat(carried ? workspace[sumsFrom + (keyFirst + key[c]) * dims + dim]
                                                                    : outWords[outHead + key[c] * oToken + dim * oDim]);
            }
    }

    // Both ends of a row's keys never fall as the row rises.
    const int rowCount = int(rowsOf(seq));
    const int lastKey = int(keyFirst + min(tileKey + tileKeys, keyCount)) - 1;
    const RowReach reach = rowsThatSee(int(keyFirst + tileKey), lastKey, rowCount);
    const int rowBegin = min(reach.begin, rowCount), rowEnd = max(reach.end, rowBegin);
    if (hasSkips) beginTileOfKeys(int(keyFirst + tileKey), min(lastKey, max(int(seq.keyCount) - 1, 0)));
    for (uint head = headBegin; head < headEnd; ++head) {
        const uint rowsAt = rBase + batch * rBatch + head * rHead + seq.queryStart * rToken;
        const uint pairsOfHead = (gl_WorkGroupID.z / keyHeads * heads + head) * queries;
        for (int from = rowBegin; from < rowEnd;) {
            Stretch stretch = Stretch(from, rowEnd);
            if (hasSkips) stretch = nextRows(head, from, rowEnd);
            // Not fewer items at a time: some drivers count rounds of loops (attention/skip.glsl).
            stretch.end = max(stretch.end, stretch.begin + int(leastStretch));
            from = stretch.end;
            for (int row = stretch.begin; row < min(stretch.end, rowEnd); ++row) {
                const uint rowAt = rowsAt + uint(row) * rToken, pairsAt = (pairsOfHead + uint(row)) * rowPitch + keyFirst;
                uint rowBits[dimsPerLane];
                [[unroll]] for (uint d = 0u; d < dimsPerLane; ++d)
                    rowBits[d] = floatBitsToUint(LOAD_ELEMENT(rows, rowType, rowAt + min(firstDim + d, dims - 1u) * rDim));
                [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                    const uint bits = workspace[pairsAt + key[c]];
                    // Hidden: -0 * 0 adds to any sum without changing a bit of it.
                    const uint visible = bits == hiddenBits ? 0u : 0xffffffffu;
                    const float weight = uintBitsToFloat(bits == hiddenBits ? 0x80000000u : bits);
                    [[unroll]] for (uint d = 0u; d < dimsPerLane; ++d)
                        sums[c * dimsPerLane + d] = fma(weight, uintBitsToFloat(rowBits[d] & visible), sums[c * dimsPerLane + d]);
                }
            }
        }
    }

    [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
        if (firstKey + c * lanesAcrossKeys >= keyCount) continue;
        const uint outAt = outHead + key[c] * oToken;
        if (waits && carried) {
            const uint at = sumsTo + (keyFirst + key[c]) * dims + firstDim;
            [[unroll]] for (uint d = 0u; d < dimsPerLane; ++d)
                if (firstDim + d < dims) workspace[at + d] = floatBitsToUint(sums[c * dimsPerLane + d]);
            continue;
        }
        const float ending = waits ? 1.0 : factor;
        [[unroll]] for (uint d = 0u; d < dimsPerLane; d += 2u) {
            const uint dim = firstDim + d, n = c * dimsPerLane + d;
            if (dim + 1u < dims) {
                STORE_ELEMENT_PAIR(outWords, outType, outAt + dim * oDim, oDim, ending * sums[n], ending * sums[n + 1u])
            } else if (dim < dims) {
                STORE_ELEMENT(outWords, outType, outAt + dim * oDim, ending * sums[n])
            }
        }
    }
}
