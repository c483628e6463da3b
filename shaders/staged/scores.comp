#version 450
// Stage 1 of the staged path: scores = softcap(scale * Q K^T) into the workspace, hidden by
// position where causal, window or key lengths say so. Each lane owns a block of rowsPerLane x
// keysPerLane scores, so that every load of Q or K feeds several multiply-adds.
#define VKATTN_STAGE_SCORES
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanesAcrossKeys = 8;
layout(constant_id = 9) const uint lanesAcrossRows = 8;
layout(constant_id = 10) const uint keysPerLane = 4;
layout(constant_id = 11) const uint rowsPerLane = 4;
const bool exactDims = true;

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"
#include "attention/pair.glsl"

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint head = gl_WorkGroupID.z % heads;
    beginSequence(gl_WorkGroupID.z / heads);
    const uint rowCount = rowsOf(seq);

    // Lanes interleave: neighbouring lanes hold neighbouring keys, so that the stores of a row are
    // contiguous.
    const uint tileKeys = lanesAcrossKeys * keysPerLane, tileRows = lanesAcrossRows * rowsPerLane;
    const uint tileKey = gl_WorkGroupID.x * tileKeys, tileRow = gl_WorkGroupID.y * tileRows;
    const uint firstKey = tileKey + lane % lanesAcrossKeys, firstRow = tileRow + lane / lanesAcrossKeys;

    float sums[rowsPerLane * keysPerLane];
    [[unroll]] for (uint n = 0; n < rowsPerLane * keysPerLane; ++n) sums[n] = 0.0;

    if (tileRow >= rowCount) return;
    const int from = int(keyFirst + tileKey);
    const Reach reach = reachOf(tileRow, min(tileRow + tileRows, rowCount) - 1u, from, from + int(tileKeys));
    bool seen = reach.begin < reach.end;
    if (hasSkips && seen) { // of nothing that rules hide from the whole tile
        beginTileOfRows(head, 1u, tileRow, min(tileRow + tileRows, rowCount) - 1u);
        seen = nextKeys(reach.begin, reach.end).begin < reach.end;
    }
    if (seen) {
        // Rows and keys past the end are computed on the last valid one and not stored.
        uint qAt[rowsPerLane];
        KeyValueRow keyRows[keysPerLane];
        [[unroll]] for (uint r = 0; r < rowsPerLane; ++r)
            qAt[r] = qBase + batch * qBatch + head * qHead + (seq.queryStart + min(firstRow + r * lanesAcrossRows, rowCount - 1u)) * qToken;
        beginKeys((headPhase + head) / groupSize);
        [[unroll]] for (uint c = 0; c < keysPerLane; ++c)
            keyRows[c] = keyRow(int(keyFirst + firstKey + c * lanesAcrossKeys));

        for (uint d = 0; d < headDim; ++d) {
            float kValue[keysPerLane];
            [[unroll]] for (uint c = 0; c < keysPerLane; ++c) kValue[c] = keyElement(keyRows[c], d);
            [[unroll]] for (uint r = 0; r < rowsPerLane; ++r) {
                const float qValue = LOAD_ELEMENT(q, qType, qAt[r]);
                qAt[r] += qDim;
                [[unroll]] for (uint c = 0; c < keysPerLane; ++c)
                    sums[r * keysPerLane + c] = fma(qValue, kValue[c], sums[r * keysPerLane + c]);
            }
        }
    }

    [[unroll]] for (uint r = 0; r < rowsPerLane; ++r) {
        const uint query = firstRow + r * lanesAcrossRows;
        if (query >= rowCount) continue;
        const uint workspaceRow = (gl_WorkGroupID.z * queries + query) * rowPitch + keyFirst;
        const Row row = rowOf(head, query);
        [[unroll]] for (uint c = 0; c < keysPerLane; ++c) {
            const uint key = firstKey + c * lanesAcrossKeys;
            if (key >= keys) continue;
            const int j = int(keyFirst + key);
            const float score = pairScore(row, j, sums[r * keysPerLane + c], 0.0);
            workspace[workspaceRow + key] = j >= row.begin && j < row.end ? scoreBits(score) : hiddenBits;
        }
    }
}
