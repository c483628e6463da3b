#version 450
// dQ on matrix units: subgroups own query rows, keys pass by.
#include "gradient/matrices.glsl"

Range rangeOf(int first, int last) {
    const Reach reach = reachOf(uint(first), uint(last), 0, int(min(keys, seq.keyCount)));
    return Range(reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);
}
void storeAllTotals(uint head) {
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (rowParts >> bit > 1u) {
                totals[r].slopes += subgroupShuffleXor(totals[r].slopes, subgroupRows << bit);
                totals[r].scale += subgroupShuffleXor(totals[r].scale, subgroupRows << bit);
                totals[r].softcap += subgroupShuffleXor(totals[r].softcap, subgroupRows << bit);
                // Not behind ||, which lanes that have seen a key would leave: nothing comes from them then.
                const uint otherSees = subgroupShuffleXor(totals[r].seesKey ? 1u : 0u, subgroupRows << bit);
                totals[r].seesKey = totals[r].seesKey || otherSees != 0u;
            }
        if (itemOf(r) < int(queries) && part() == 0u) storeTotals(head, itemOf(r), itemOf(r) <= ownedLast, totals[r], ownedSums[r]);
    }
}

void main() {
    beginSubgroup();
    const uint head = gl_WorkGroupID.z % headCount();
    beginSequence(gl_WorkGroupID.z / headCount());
    rowCount = rowsOf(seq);
    ownedLast = int(rowCount) - 1;
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) totals[r] = noTotals();
    if (tileFirst > ownedLast) {
        if (rowSumsWanted) storeAllTotals(head);
        return;
    }
    beginHead(head);
    const uint kvHead = head / groupSize();
    beginKeys(kvHead);
    beginValues(kvHead);

    LOAD_OWNED(ownedHead, headBlocks, ownedHeadTile, headPitch, OWNED_HEAD)
    LOAD_OWNED(ownedValue, valueBlocks, ownedValueTile, valuePitch, OWNED_VALUE)
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        ownedRows[r] = rowOf(head, uint(laneItem(r)));
        ownedSums[r] = rowSumsAt(factsAt + uint(laneItem(r)) * rowFactWords);
    }
    beginSums();
    const int last = ownedLast;
    if (hasSkips) beginTileOfRows(head, 1u, uint(tileFirst), uint(min(tileFirst + int(tileOwned) - 1, last)));
    takeHead(head, rangeOf(tileFirst, min(tileFirst + int(tileOwned) - 1, last)),
             rangeOf(min(firstOwned, last), min(firstOwned + int(subgroupRows) - 1, last)));

    storeEnds();
    subgroupSync();
    const uint stored = rowCount;
    if (headWanted)
        STORE_SUMS(headSums, headSumBlocks, headGradient, headGradientType, headDim,
                   headGradientBase + batch * dqStrides.batch + head * dqStrides.head + seq.queryStart * dqStrides.token, dqStrides,
                   uintBitsToFloat(end_.x), scale * factor, ofHead)
    if (rowSumsWanted) storeAllTotals(head);
    if (infiniteOrNan) atomicOr(nonfinite[nonfiniteBase], 1u);
}
