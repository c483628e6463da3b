#version 450
// dK and dV on matrix units: subgroups own keys, and the rows of all query heads of the key head pass
// by, in order.
#define VKATTN_OWNS_KEYS
#include "gradient/matrices.glsl"

Range rangeOf(int first, int last) {
    const RowReach reach = rowsThatSee(first, last, int(rowCount));
    return Range(reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);
}

void main() {
    beginSubgroup();
    const uint kvHeads = headCount() / groupSize(), kvHead = gl_WorkGroupID.z % kvHeads;
    beginSequence(gl_WorkGroupID.z / kvHeads);
    rowCount = rowsOf(seq);
    // Keys of the tensor that the batch entry has; those past its length get zeros.
    const uint stored = (flags & flagRagged) != 0u ? seq.keyCount : keys;
    if (tileFirst >= int(stored)) return;
    ownedLast = int(min(keys, seq.keyCount)) - 1;
    beginKeys(kvHead);
    beginValues(kvHead);

    beginSums();
    if (rowCount > 0u && tileFirst <= ownedLast) {
        LOAD_OWNED(ownedHead, headBlocks, ownedHeadTile, headPitch, OWNED_HEAD)
        LOAD_OWNED(ownedValue, valueBlocks, ownedValueTile, valuePitch, OWNED_VALUE)
        const int last = ownedLast;
        const Range all = rangeOf(tileFirst, min(tileFirst + int(tileOwned) - 1, last));
        const Range own = rangeOf(min(firstOwned, last), min(firstOwned + int(subgroupRows) - 1, last));
        if (hasSkips) beginTileOfKeys(tileFirst, min(tileFirst + int(tileOwned) - 1, last));
        [[dont_unroll]] for (uint head = kvHead * groupSize(); head < (kvHead + 1u) * groupSize(); ++head) {
            beginHead(head);
            takeHead(head, all, own);
        }
    }

    storeEnds();
    subgroupSync();
    if (headWanted)
        STORE_SUMS(headSums, headSumBlocks, headGradient, headGradientType, headDim,
                   headGradientBase + batch * dkStrides.batch + kvHead * dkStrides.head + seq.keyStart * dkStrides.token, dkStrides,
                   uintBitsToFloat(end_.x), scale * factor, ofHead)
    if (valueWanted)
        STORE_SUMS(valueSums, valueSumBlocks, valueGradient, valueGradientType, valueDim,
                   valueGradientBase + batch * dvStrides.batch + kvHead * dvStrides.head + seq.keyStart * dvStrides.token, dvStrides,
                   weightUnscale, drops ? dropoutFactor * factor : factor, ofValue)
    if (infiniteOrNan) atomicOr(nonfinite[nonfiniteBase], 1u);
}
