// The end of flash.comp: rows to the output, or as partial results to the workspace.
#include "flash_finish.glsl"

RowEnd rowEnds[rowsPerLane];
uint outAt[rowsPerLane]; // word or element of the row's first dim

float finished(uint r, uint n) { return uintBitsToFloat(outputBits(rowEnds[r], sums[r * valueDimsPerLane + n])); }

// Dims n and n + 1 of a row, neighbours, where valueRun is even; else dim n alone.
void storeDims(uint r, uint n) {
    const uint dim = valueDimOf(n);
    if (tileRow + rowLane * rowsPerLane + r >= rowCount || dim >= valueDim) return;
    if ((flags & flagPartial) != 0u) {
        outWords[outAt[r] + dim] = floatBitsToUint(sums[r * valueDimsPerLane + n]);
        if (valueRun % 2u == 0u && dim + 1u < valueDim) outWords[outAt[r] + dim + 1u] = floatBitsToUint(sums[r * valueDimsPerLane + n + 1u]);
    } else if (valueRun % 2u == 0u && dim + 1u < valueDim) {
        STORE_ELEMENT_PAIR(outWords, outType, outAt[r] + dim * oDim, oDim, finished(r, n), finished(r, n + 1u))
    } else {
        STORE_ELEMENT(outWords, outType, outAt[r] + dim * oDim, finished(r, n))
    }
}

void storeRows() {
    const uint parts = partsAndFirst & 0xffffu, part = (partsAndFirst >> 16) + gl_WorkGroupID.y * keyLanes + keyLane;
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
        const uint row = laneRow(r);
        const bool mine = tileRow + rowLane * rowsPerLane + r < rowCount && dimLane == 0u;
        if ((flags & flagPartial) != 0u) {
            const uint at = ((gl_WorkGroupID.z * packedHeads() * queries + row) * parts + part) * (valueDim + partialWords);
            outAt[r] = at + partialWords;
            if (mine) {
                outWords[at] = floatBitsToUint(maximum[r]);
                outWords[at + 1u] = floatBitsToUint(weightSum[r]);
                outWords[at + 2u] = worst[r];
            }
        } else {
            uint sinkBits = minusInfinityBits;
            const uint token = seq.queryStart + row / packedHeads();
#ifdef VKATTN_OPTIONS
            if ((flags & flagSinks) != 0u) sinkBits = sinks[options.sinksBase + headOf(row)];
#endif
            rowEnds[r] = finishRow(maximum[r], weightSum[r], worst[r], sinkBits);
            outAt[r] = oBase + batch * oBatch + headOf(row) * oHead + token * oToken;
#ifdef VKATTN_OPTIONS
            if (mine && (flags & flagLse) != 0u)
                lse[options.lseBase + batch * options.lseBatch + headOf(row) * options.lseHead + token * options.lseToken] = rowEnds[r].lseBits;
#endif
        }
    }
    const uint stride = valueRun % 2u == 0u ? 2u : 1u;
    if (rolledEdges) {
        for (uint n = 0u; n < rowsPerLane * valueDimsPerLane; n += stride) storeDims(n / valueDimsPerLane, n % valueDimsPerLane);
    } else {
        [[unroll]] for (uint n = 0u; n < rowsPerLane * valueDimsPerLane; n += stride) storeDims(n / valueDimsPerLane, n % valueDimsPerLane);
    }
}
