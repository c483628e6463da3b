// Which keys query rows see by position: causal, window, alignment, prefixes, lengths and the outermost
// axis of a grid in one half-open range per row. Both ends never fall as the row rises, so that the ranges of a tile's first and
// last row say what the tile visits.
//
// Included after sequence.glsl. Rows are queries of the chunk, keys count from the first of the
// batch entry.

// With offsets the host says that queries are aligned at the first key. A shift that is chosen once, and not
// where a position is wanted, took 12 registers more in gradients on RDNA3.
int alignedPosition(uint query) {
    const int i = int(queryFirst + query);
    return (flags & flagTopLeft) != 0u ? i + seq.shift : i + int(seq.keyCount) - int(seq.queryCount);
}
int keyBegin(uint query) {
    int begin = max(alignedPosition(query) - left, 0);
#ifdef VKATTN_LENGTHS_BOUND
    if (hasGrid) begin = max(begin, outerKeys(alignedPosition(query)).begin);
#endif
    return begin;
}
int keyEnd(uint query) {
    const int position = alignedPosition(query);
    int last = min(position + right, int(seq.keyCount) - 1);
    if (hasPrefix) last = min(last, max(position, int(seq.prefix) - 1));
    int end = last + 1;
#ifdef VKATTN_LENGTHS_BOUND
    if (hasGrid) end = min(end, outerKeys(position).end);
#endif
    return end;
}

struct Reach {
    int begin, end;           // keys that some row of the tile sees
    int wholeBegin, wholeEnd; // keys that every row of the tile sees
};
// Of the rows [first, last], among the keys [from, to).
Reach reachOf(uint first, uint last, int from, int to) {
    const int wholeBegin = max(keyBegin(last), from);
    int wholeEnd = min(keyEnd(first), to);
#ifdef VKATTN_LENGTHS_BOUND
    // Not later than it was: keys from the length on are seen by no row.
    if (hasPages && rule.anyAbsent) wholeEnd = min(wholeEnd, wholeBegin);
#endif
    return Reach(max(keyBegin(first), from), min(keyEnd(last), to), wholeBegin, wholeEnd);
}

// The other way round: which rows see keys. Keys are those of the batch entry, rows the `rowCount`
// of the chunk that the entry has.
struct RowReach {
    int begin, end;           // rows that see some key of the tile
    int wholeBegin, wholeEnd; // rows that see every key of the tile
};
// Of the keys [first, last], which the batch entry has.
RowReach rowsThatSee(int first, int last, int rowCount) {
    // A row at position i' sees key j from j - right to j + left.
    const int shift = alignedPosition(0u);
    int begin = first - right, wholeBegin = last - right, end = last + left + 1;
    if (hasPrefix) { // causal hides a key that lies behind the prefix from the positions before it
        if (first >= int(seq.prefix)) begin = max(begin, first);
        if (last >= int(seq.prefix)) wholeBegin = max(wholeBegin, last);
    }
#ifdef VKATTN_LENGTHS_BOUND
    if (hasGrid) {
        const AxisRange positions = outerPositions(first, last);
        begin = max(begin, positions.begin);
        end = min(end, positions.end);
    }
#endif
    return RowReach(max(begin - shift, 0), min(end - shift, rowCount), max(wholeBegin - shift, 0), min(first + left - shift + 1, rowCount));
}
