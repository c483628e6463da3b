#version 450
// dQ: lanes own query rows, keys pass by.
#include "gradient/tiles.glsl"

// What a sink takes of a row, dSinks_h's summand. A row that sees nothing has its dLse alone: its
// dOut, and so its D_i, are unread.
float sinkSum(uint head, uint n) {
    const uint bits = headFacts[headFirst + head].sink;
    if ((flags & flagSinks) == 0u || bits == minusInfinityBits) return 0.0;
    const float upstream = seesKey[n] ? -ownedSums[n].delta : uintBitsToFloat(rowFacts[factsAt + uint(laneItem(n)) * rowFactWords + factDLse]);
    const float weight = expDifference(uintBitsToFloat(bits), ownedSums[n].maximum) * ownedSums[n].reciprocal;
    return isFiniteBits(bits) ? weight * upstream : uintBitsToFloat(canonicalNanBits);
}
// To the workspace, for row_sums.comp: rows past a sequence's end add 0.
void storeRowSums(uint head) {
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
        if (itemOf(n) >= int(queries) || dimLane != 0u) continue;
        const bool there = itemOf(n) <= ownedLast;
        const uint at = valueGradientBase + ((batch * headCount() + head) * queries + uint(itemOf(n))) * rowSumWords;
        float sink = 0.0;
        if (there) sink = sinkSum(head, n);
        valueGradient[at + rowSumSlopes] = there ? floatBitsToUint(slopeSums[n]) : 0u;
        valueGradient[at + rowSumSinks] = floatBitsToUint(sink);
        valueGradient[at + rowSumScale] = there ? floatBitsToUint(scaleSums[n]) : 0u;
        valueGradient[at + rowSumSoftcap] = there ? floatBitsToUint(capSums[n]) : 0u;
    }
}

void main() {
    beginLanes();
    const uint head = gl_WorkGroupID.z % headCount();
    beginSequence(gl_WorkGroupID.z / headCount());
    rowCount = rowsOf(seq);
    ownedLast = int(rowCount) - 1;
    if (tileFirst > ownedLast) {
        if (rowSumsWanted) storeRowSums(head);
        return;
    }
    beginHead(head);
    const uint kvHead = head / groupSize();
    beginKeys(kvHead);
    beginValues(kvHead);

    loadOwned();
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
        ownedRows[n] = rowOf(head, uint(laneItem(n)));
        ownedSums[n] = rowSumsAt(factsAt + uint(laneItem(n)) * rowFactWords);
        slopeSums[n] = scaleSums[n] = capSums[n] = 0.0;
        seesKey[n] = false;
    }
    const Reach reach = reachOf(uint(tileFirst), min(uint(tileFirst) + tileOwned, rowCount) - 1u, 0, int(min(keys, seq.keyCount)));
    takeHead(head, reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);

    const uint stored = rowCount;
    if (headWanted)
        STORE_OWNED(headGradient, headGradientType, headSums, dimsPerLane, BLOCK_OF(dimsPerLane), run, dimOf, headDim,
                headGradientBase + batch * dqStrides.batch + head * dqStrides.head + seq.queryStart * dqStrides.token, dqStrides, scale * factor)
    if (rowSumsWanted) storeRowSums(head);
    if (infiniteOrNan) atomicOr(nonfinite[nonfiniteBase], 1u);
}
