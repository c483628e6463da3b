#version 450
// dQ: lanes own query rows, keys pass by.
#include "gradient/tiles.glsl"

void storeAllTotals(uint head) {
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        if (itemOf(n) < int(queries) && dimLane == 0u) storeTotals(head, itemOf(n), itemOf(n) <= ownedLast, totals[n], ownedSums[n]);
}

void main() {
    beginLanes();
    const uint head = gl_WorkGroupID.z % headCount();
    beginSequence(gl_WorkGroupID.z / headCount());
    rowCount = rowsOf(seq);
    ownedLast = int(rowCount) - 1;
    if (tileFirst > ownedLast) {
        if (rowSumsWanted) storeAllTotals(head);
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
        totals[n] = noTotals();
    }
    const Reach reach = reachOf(uint(tileFirst), min(uint(tileFirst) + tileOwned, rowCount) - 1u, 0, int(min(keys, seq.keyCount)));
    if (hasSkips) beginTileOfRows(head, 1u, uint(tileFirst), min(uint(tileFirst) + tileOwned, rowCount) - 1u);
    takeHead(head, reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);

    const uint stored = rowCount;
    if (headWanted)
        STORE_OWNED(headGradient, headGradientType, headSums, dimsPerLane, BLOCK_OF(dimsPerLane), run, dimOf, headDim,
                headGradientBase + batch * dqStrides.batch + head * dqStrides.head + seq.queryStart * dqStrides.token, dqStrides, scale * factor)
    if (rowSumsWanted) storeAllTotals(head);
    if (infiniteOrNan) atomicOr(nonfinite[nonfiniteBase], 1u);
}
