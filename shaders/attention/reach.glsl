// Which keys query rows see by position: causal, window, alignment and lengths in one half-open
// range per row. Both ends never fall as the row rises, so that the ranges of a tile's first and
// last row say what the tile visits.
//
// Included after sequence.glsl. Rows are queries of the chunk, keys count from the first of the
// batch entry.

int alignedPosition(uint query) {
    const int i = int(queryFirst + query);
    return (flags & flagTopLeft) != 0u ? i : i + int(seq.keyCount) - int(seq.queryCount);
}
int keyBegin(uint query) { return max(alignedPosition(query) - left, 0); }
int keyEnd(uint query) { return min(alignedPosition(query) + right, int(seq.keyCount) - 1) + 1; }

struct Reach {
    int begin, end;           // keys that some row of the tile sees
    int wholeBegin, wholeEnd; // keys that every row of the tile sees
};
// Of the rows [first, last], among the keys [from, to).
Reach reachOf(uint first, uint last, int from, int to) {
    return Reach(max(keyBegin(first), from), min(keyEnd(last), to), max(keyBegin(last), from), min(keyEnd(first), to));
}

// The other way round: which rows see keys. Keys are those of the batch entry, rows the `rowCount`
// of the chunk that the entry has.
struct RowReach {
    int begin, end;           // rows that see some key of the tile
    int wholeBegin, wholeEnd; // rows that see every key of the tile
};
// Of the keys [first, last], which the batch entry has.
RowReach rowsThatSee(int first, int last, int rowCount) {
    // A row sees key j from j - right - shift to j + left - shift.
    const int shift = alignedPosition(0u);
    return RowReach(max(first - right - shift, 0), min(last + left - shift + 1, rowCount), max(last - right - shift, 0),
                    min(first + left - shift + 1, rowCount));
}
