// Which keys a query may see by position: causal, window, alignment and key lengths in one half-open range per row. Both ends never
// fall as the row rises, so the range of a tile of rows is [keyBegin(first row), keyEnd(last row)).

// Lengths are data on the device: clamped, never trusted.
int effectiveKeys(uint batchInChunk) {
    if ((flags & flagKeyLengths) == 0u) return int(keyTokens);
    return int(min(lengths[lengthsBase + batchInChunk], keyTokens));
}
int alignedPosition(uint queryInChunk, int keyCount) {
    const int i = int(queryFirst + queryInChunk);
    return (flags & flagTopLeft) != 0u ? i : i + keyCount - int(queryTokens);
}
int keyBegin(uint queryInChunk, int keyCount) { return max(alignedPosition(queryInChunk, keyCount) - left, 0); }
int keyEnd(uint queryInChunk, int keyCount) { return min(alignedPosition(queryInChunk, keyCount) + right, keyCount - 1) + 1; }
