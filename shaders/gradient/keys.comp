#version 450
// dK and dV: lanes own keys, and the rows of all query heads of the key head pass by, in order.
#define VKATTN_OWNS_KEYS
#include "gradient/tiles.glsl"

void main() {
    beginLanes();
    const uint kvHeads = headCount() / groupSize(), kvHead = gl_WorkGroupID.z % kvHeads;
    beginSequence(gl_WorkGroupID.z / kvHeads);
    rowCount = rowsOf(seq);
    // Keys of the tensor that the batch entry has; those past its length get zeros.
    const uint stored = (flags & flagRagged) != 0u ? seq.keyCount : keys;
    if (tileFirst >= int(stored)) return;
    ownedLast = int(min(keys, seq.keyCount)) - 1;
    beginKeys(kvHead);
    beginValues(kvHead);

    loadOwned();
    if (rowCount > 0u && tileFirst <= ownedLast) {
        const RowReach reach = rowsThatSee(tileFirst, min(tileFirst + int(tileOwned) - 1, ownedLast), int(rowCount));
        if (hasSkips) beginTileOfKeys(tileFirst, min(tileFirst + int(tileOwned) - 1, ownedLast));
        [[dont_unroll]] for (uint head = kvHead * groupSize(); head < (kvHead + 1u) * groupSize(); ++head) {
            beginHead(head);
            takeHead(head, reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);
        }
    }

    if (headWanted)
        STORE_OWNED(headGradient, headGradientType, headSums, dimsPerLane, BLOCK_OF(dimsPerLane), run, dimOf, headDim,
                headGradientBase + batch * dkStrides.batch + kvHead * dkStrides.head + seq.keyStart * dkStrides.token, dkStrides, scale * factor)
    if (valueWanted)
        STORE_OWNED(valueGradient, valueGradientType, valueSums, valueDimsPerLane, BLOCK_OF(valueDimsPerLane), valueRun,
                valueDimOf, valueDim, valueGradientBase + batch * dvStrides.batch + kvHead * dvStrides.head + seq.keyStart * dvStrides.token,
                dvStrides, factor)
    if (infiniteOrNan) atomicOr(nonfinite[nonfiniteBase], 1u);
}
