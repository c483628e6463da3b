// What lanes.comp and the kernels on matrix units share: which rows and keys a workgroup has, and
// where a row's operands lie. Included after operands.glsl, sequence.glsl, pair.glsl and
// dropout.glsl.
#include "attention/row_end.glsl"
#include "attention/turns.glsl"

uint headCount() { return headsAndPacked & 0xffffu; }
uint packedHeads() { return headsAndPacked >> 16; }
uint groupSize() { return groupAndPhase & 0xffffu; }
uint headPhase() { return groupAndPhase >> 16; }

uint tileHead; // the first head of the workgroup
uint rowCount, tileRow, tileRowEnd; // rows there are; those of the workgroup
int splitBegin, splitEnd; // keys of the split, from key 0 of the sequence

// A tile of rows of a grid may be a patch of the grid: what the rows see is then more of the same. Rows
// count from patch to patch, and those that would lie past the grid's end are not there.
#ifdef VKATTN_LENGTHS_BOUND
bool inPatches() { return hasGrid && rule.patchColumns != 0; }
uint gridRowsOfChunk() { return min(ruleWord(ruleExtents + 1u), uint(quotientOf(int(queries), rule.columns, rule.perColumn))); }
int patchesAcross() { return quotientOf(rule.columns + rule.patchColumns - 1, rule.patchColumns); }
int patchesOfPlane() { return patchesAcross() * quotientOf(int(gridRowsOfChunk()) + rule.patchRows - 1, rule.patchRows); }
uint countPatches() { return max(queries / uint(rule.planeTokens), 1u) * uint(patchesOfPlane()); }
struct GridPlace {
    uint plane, row, column;
};
GridPlace gridPlaceOf(uint row) {
    const int patchTokens = rule.patchRows * rule.patchColumns, patch_ = quotientOf(int(row), patchTokens), inside = int(row) - patch_ * patchTokens;
    const int plane = quotientOf(patch_, patchesOfPlane()), inPlane = patch_ - plane * patchesOfPlane();
    const int down = quotientOf(inPlane, patchesAcross()), rowInside = quotientOf(inside, rule.patchColumns);
    return GridPlace(uint(plane), uint(down * rule.patchRows + rowInside),
                     uint((inPlane - down * patchesAcross()) * rule.patchColumns + inside - rowInside * rule.patchColumns));
}
#endif

// Of workgroup x * y * z: row tiles and splits (turns.glsl), batch * heads. False where it has no rows: said at the
// end, because returning early took 24 registers more on NVK.
bool beginTile(uint tileRows) {
    const uint headGroups = headCount() / packedHeads();
    tileHead = gl_WorkGroupID.z % headGroups * packedHeads();
    headDim = dims & 0xffffu;
    valueDim = dims >> 16;
    beginSequence(gl_WorkGroupID.z / headGroups);
    rowCount = rowsOf(seq) * packedHeads();
#ifdef VKATTN_LENGTHS_BOUND
    if (inPatches()) rowCount = countPatches() * tileRows;
#endif
    tileRow = tileOfGroup() * tileRows;
    tileRowEnd = min(tileRow + tileRows, rowCount);

    const uint kvHead = (headPhase() + tileHead) / groupSize();
    beginKeys(kvHead);
    beginValues(kvHead);

    splitBegin = int(keyFirst + splitOfGroup() * splitKeys);
    splitEnd = int(min(min(uint(splitBegin) + splitKeys, keyFirst + keys), seq.keyCount));
    return tileRow < rowCount;
}

// A packed row is query * packedHeads + head of the group.
uint headOf(uint row) { return tileHead + row % packedHeads(); }
uint queryOf(uint row) {
#ifdef VKATTN_LENGTHS_BOUND
    if (inPatches()) {
        const GridPlace at = gridPlaceOf(row);
        return at.plane * uint(rule.planeTokens) + min(at.row, gridRowsOfChunk() - 1u) * uint(rule.columns) +
               min(at.column, uint(rule.columns) - 1u);
    }
#endif
    return row / packedHeads();
}
// Others repeat one that is there, and are not stored.
bool isThere(uint row) {
#ifdef VKATTN_LENGTHS_BOUND
    if (inPatches()) {
        const GridPlace at = gridPlaceOf(row);
        return row < rowCount && at.row < gridRowsOfChunk() && at.column < uint(rule.columns);
    }
#endif
    return row < rowCount;
}

// Keys of the split that the rows [first, last] see.
Reach reachOfRows(uint first, uint last) { return reachOf(queryOf(first), queryOf(last), splitBegin, splitEnd); }

// What rules let the workgroup skip.
void beginSkips() {
#ifdef VKATTN_LENGTHS_BOUND
    if (hasSkips) beginTileOfRows(tileHead, packedHeads(), queryOf(tileRow), queryOf(tileRowEnd - 1u));
#endif
}

// Keys that rows see beyond the split are another workgroup's.
Row rowAt(uint row) {
    Row r = rowOf(headOf(row), queryOf(row));
    r.begin = max(r.begin, splitBegin);
    r.end = min(r.end, splitEnd);
    return r;
}

uint queryAt(uint row) { return qBase + batch * qBatch + headOf(row) * qHead + (seq.queryStart + queryOf(row)) * qToken; }
uint outputAt(uint row) { return oBase + batch * oBatch + headOf(row) * oHead + (seq.queryStart + queryOf(row)) * oToken; }
// Word of the partial result of a row in its part-th split or key lane.
uint partialAt(uint row, uint part) {
    const uint parts = partsAndFirst & 0xffffu;
    return ((gl_WorkGroupID.z * packedHeads() * queries + row) * parts + (partsAndFirst >> 16) + part) * (valueDim + partialWords);
}

// What a visible score counts for in a row's worst score: the largest |score| in bits, -infinity as
// 1.
uint worstOf(float score) {
    const uint bits = floatBitsToUint(score);
    return bits == minusInfinityBits ? 1u : bits & 0x7fffffffu;
}

// The sink's bits of a row, and its log-sum-exp or statistics where they are wanted.
uint sinkOf(uint row) {
#ifdef VKATTN_OPTIONS
    if ((flags & flagSinks) != 0u) return headFacts[headFirst + headOf(row)].sink;
#endif
    return minusInfinityBits;
}
// What dropout multiplies kept weights with.
float keptFactor() {
#ifdef VKATTN_DROPS
    if (drops) return dropoutFactor;
#endif
    return 1.0;
}
void storeLse(uint row, RowEnd end) {
#ifdef VKATTN_OPTIONS
    if ((flags & flagLse) == 0u) return;
    const bool statistics = (flags & flagRowStatistics) != 0u;
    const uint at = lseBase + batch * lseBatch + headOf(row) * lseHead + (seq.queryStart + queryOf(row)) * lseToken;
    lse[at] = statistics ? end.maximumBits : end.lseBits;
    if (statistics) lse[at + lseEntry] = end.sumBits;
#endif
}
