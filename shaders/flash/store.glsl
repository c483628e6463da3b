// The end of lanes.comp: rows to the output, or as partial results to the workspace.
// Of the row at hand.
RowEnd finish;
uint outAt;    // word or element of its first dim
bool isStored; // false: past the end, its dims are not stored

void beginRow(uint r, float rowMaximum, float rowSum, uint rowWorst) {
    const uint row = laneRow(r);
    isStored = isThere(tileRow + rowLane * rowsPerLane + r);
    const bool mine = isStored && dimLane == 0u;
    if ((flags & flagPartial) != 0u) {
        const uint at = partialAt(row, splitOfGroup() * keyLanes + keyLane);
        outAt = at + partialWords;
        if (mine) {
            outWords[at] = floatBitsToUint(rowMaximum);
            outWords[at + 1u] = floatBitsToUint(rowSum);
            outWords[at + 2u] = rowWorst;
        }
        return;
    }
    finish = finishRow(rowMaximum, rowSum, rowWorst, sinkOf(row), keptFactor());
    outAt = outputAt(row);
    if (mine) storeLse(row, finish);
}

// Dims n and n + 1 of a row, neighbours, where valueRun is even; else dim n alone.
void storeDims(uint n, float first, float second) {
    const uint dim = valueDimOf(n);
    if (!isStored || dim >= valueDim) return;
    const bool both = valueRun % 2u == 0u && dim + 1u < valueDim;
    if ((flags & flagPartial) != 0u) {
        outWords[outAt + dim] = floatBitsToUint(first);
        if (both) outWords[outAt + dim + 1u] = floatBitsToUint(second);
        return;
    }
    first = uintBitsToFloat(outputBits(finish, first));
    second = uintBitsToFloat(outputBits(finish, second));
    if (both) {
        STORE_ELEMENT_PAIR(outWords, outType, outAt + dim * oDim, oDim, first, second)
    } else {
        STORE_ELEMENT(outWords, outType, outAt + dim * oDim, first)
    }
}

const uint stride = valueRun % 2u == 0u ? 2u : 1u; // dims that are stored at a time

// Past the lane's last dim, storeDims() stores nothing.
void storeBlock(uint row, uint block) {
    [[unroll]] for (uint e = 0u; e < valueBlockDims; e += stride) {
        float first = 0.0, second = 0.0;
        [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
            [[unroll]] for (uint b = 0u; b < valueDimBlocks; ++b) {
                const uint n = r * valueDimsPerLane + min(b * valueBlockDims + e, valueDimsPerLane - stride);
                const bool here = r == row && b == block;
                first = here ? sums[n] : first;
                second = here ? sums[n + stride - 1u] : second;
            }
        storeDims(block * valueBlockDims + e, first, second);
    }
}

void storeRows() {
    [[dont_unroll]] for (uint row = 0u; row < rowsPerLane; ++row) {
        float rowMaximum = lowest, rowSum = 0.0;
        uint rowWorst = 0u;
        [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
            rowMaximum = r == row ? maximum[r] : rowMaximum;
            rowSum = r == row ? weightSum[r] : rowSum;
            rowWorst = r == row ? worst[r] : rowWorst;
        }
        beginRow(row, rowMaximum, rowSum, rowWorst);
        if (rolledEdges) {
            for (uint n = 0u; n < valueDimsPerLane; n += stride)
                storeDims(n, sums[row * valueDimsPerLane + n], sums[row * valueDimsPerLane + n + stride - 1u]);
        } else {
            if (wholeEdges && valueDimBlocks == 1u)
                storeBlock(row, 0u);
            else
                [[dont_unroll]] for (uint block = 0u; block < valueDimBlocks; ++block) storeBlock(row, block);
        }
    }
}
