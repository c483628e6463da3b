// Which steps of its reach a tile need not visit, because rules hide them from all of its items: the next
// stretch of keys that some row of a tile may see, and the other way round the next stretch of rows that
// may see some key of a tile. Both may name what nobody sees, and leave out nothing that somebody sees.
//
// Tiles ask once a stretch and not once a step: Mesa's software driver counts every round of every loop
// here, those of lanes that are not in the loop too, against the 65,535 that a shader may take. A tile asks
// for so many short stretches (ruleSkips), and then visits all: planners can count rounds by the item, and
// need not cut keys into splits for stretches of one key each.
//
// Included after reach.glsl.
const bool hasSkips = (pairTerms & termsOfRules) != 0u;
// Rules alone hide, and those so that all rows of a tile may see all keys of a stretch: no pair of it is tested.
const uint wholesTerms = pairTerms & (termsThatHide | termDilated | termDropout | termPages);
const bool localAlone = wholesTerms == termLocal, blocksAlone = wholesTerms == termBlocks;
const bool mayShowWholes = localAlone || blocksAlone;

// What a tile asks for: rows that own it, or keys.
struct TileRules {
    bool all;                    // of the other side, of a window: a token of the tile is global
    int localBegin, localEnd;    // keys, or positions of rows
    int spread;                  // of a tile of rows: from the first one's position to the last one's
    Box box;                     // likewise
    uint blocksAt;               // of the first row of blocks, or of a head's first row
    uint blockRows, blockHeads;  // of rows
    uint blockFirst, blockLast;  // columns of keys
    uint shortStretches;         // that it has asked for
    bool named;                  // the last stretch is one that rules name
};
TileRules tileRules;
// Items [begin, end) of the other side; behind them something else may be said. None where begin is what was
// asked for as the end.
struct Stretch {
    int begin, end;
};
#ifdef VKATTN_LENGTHS_BOUND
// The first global token from `from` on; `to` where there is none before.
int nextGlobal(int from, int to) {
    if (rule.globalsAt == rule.header || from >= to) return to;
    uint word = uint(from) >> 5;
    const uint rest = lengths[rule.globalsAt + word] >> (uint(from) & 31u);
    if (rest != 0u) return min(from + findLSB(rest), to);
    ++word;
    // A bit of the summary for each word.
    const uint end = (uint(to) + 31u) >> 5;
    uint bits = lengths[rule.summaryAt + (word >> 5)] & 0xffffffffu << (word & 31u);
    uint at = word >> 5;
    while (bits == 0u && (at + 1u) * 32u < end) {
        ++at;
        bits = lengths[rule.summaryAt + at];
    }
    word = at * 32u + uint(max(findLSB(bits), 0));
    return bits == 0u || word >= end ? to : min(int(word * 32u) + findLSB(lengths[rule.globalsAt + word]), to);
}
// Neighbours of a global token that are global too, and the token: those whose bits share a word.
int globalRun(int global) {
    const int rest = findLSB(~(lengths[rule.globalsAt + (uint(global) >> 5)] >> (uint(global) & 31u)));
    return rest < 0 ? 32 : rest;
}
bool anyGlobal(int first, int last) { return first <= last && nextGlobal(first, last + 1) <= last; }

int stepsTo(uint side) {
    const uint steps = ruleWord(side), dilation = ruleWord(ruleDilation); // the most that a head may have
    return steps >= openSide / dilation ? int(openSide) : int(steps * dilation);
}

// The other way round: coordinates whose boxes have coordinate c.
AxisRange axisSeers(uint axis, int c) {
    if (rule.gridKind != gridClamped) return axisRange(axis, c);
    const int extent = int(ruleWord(ruleExtents + axis)), size = int(ruleWord(ruleSizes + axis));
    return AxisRange(c < size ? 0 : c - size / 2, c >= extent - size ? extent : c + size / 2 + 1);
}
AxisRange axisOf(uint axis, int first, int last, bool seers) {
    if (seers) return AxisRange(axisSeers(axis, first).begin, axisSeers(axis, last).end);
    return AxisRange(axisRange(axis, first).begin, axisRange(axis, last).end);
}
// The smallest box that the boxes of the items [first, last] lie in; `seers`: the items that see them;
// `patched`: the items are those of a rectangle, of which these are two corners.
Box boxOfItems(int first, int last, bool seers, bool patched) {
    const int plane = first / rule.planeTokens, lastPlane = last / rule.planeTokens;
    const int inPlane = first - plane * rule.planeTokens, lastInPlane = last - lastPlane * rule.planeTokens;
    const int row = inPlane / rule.columns, lastRow = lastInPlane / rule.columns;
    const bool onePlane = plane == lastPlane, oneRow = onePlane && row == lastRow;
    const AxisRange z = axisOf(0u, plane, lastPlane, seers);
    AxisRange y = AxisRange(0, int(ruleWord(ruleExtents + 1u))), x = AxisRange(0, rule.columns);
    if (onePlane) y = axisOf(1u, row, lastRow, seers);
    if (oneRow || patched) x = axisOf(2u, inPlane % rule.columns, lastInPlane % rule.columns, seers);
    return Box(z.begin * rule.planeTokens + y.begin * rule.columns + x.begin, x.begin, z.end - z.begin, y.end - y.begin, x.end - x.begin);
}
// Of a box, up to the end of a row.
Stretch nextOfBox(Box box, int from, int to) {
    from = max(from, box.first);
    int at = from - box.first, plane = 0;
    if ((pairTerms & termPlanes) != 0u) plane = quotientOf(at, rule.planeTokens, rule.perPlane);
    at -= plane * rule.planeTokens;
    int row = quotientOf(at, rule.columns, rule.perColumn), column = at - row * rule.columns;
    if (column >= box.columns) {
        column = 0;
        ++row;
    }
    if (row >= box.rows) {
        row = column = 0;
        ++plane;
    }
    const int rowAt = box.first + plane * rule.planeTokens + row * rule.columns;
    if (plane >= box.planes || rowAt + column >= to) return Stretch(to, to);
    return Stretch(rowAt + column, min(rowAt + box.columns, to));
}

// A tile of query rows of the chunk, of neighbouring heads.
void beginTileOfRows(uint firstHead, uint heads_, uint firstQuery, uint lastQuery) {
    tileRules.shortStretches = 0u;
    const int first = alignedPosition(firstQuery), last = alignedPosition(lastQuery);
    if (hasLocal) {
        const int back = stepsTo(ruleLeft), ahead = stepsTo(ruleRight);
        tileRules.localBegin = back == int(openSide) ? -back : first - back;
        tileRules.localEnd = ahead == int(openSide) ? ahead : last + ahead + 1;
        tileRules.spread = last - first;
        tileRules.all = anyGlobal(max(first, 0), min(last, int(seq.keyCount) - 1));
    }
    if (hasGrid) {
        const int most = int(ruleWord(ruleExtents)) * rule.planeTokens - 1;
        tileRules.box = boxOfItems(clamp(first, 0, most), clamp(last, 0, most), false, rule.patchColumns != 0);
    }
    if (hasBlocks) {
        const uint size = ruleWord(ruleBlockQueries), row = (queryFirst + firstQuery) / size;
        tileRules.blocksAt = rule.blocksAt + (headFirst + firstHead) * ruleWord(ruleBlockHead) + row * ruleWord(ruleBlockRow);
        tileRules.blockRows = (queryFirst + lastQuery) / size - row + 1u;
        tileRules.blockHeads = ruleWord(ruleBlockHead) == 0u ? 1u : heads_;
    }
}
Stretch nextLocal(int from, int to, int globalEnd) {
    if (tileRules.all) return Stretch(from, to);
    if (from >= tileRules.localBegin && from < tileRules.localEnd) return Stretch(from, min(tileRules.localEnd, to));
    const int next = from < tileRules.localBegin ? min(tileRules.localBegin, to) : to;
    const int global = nextGlobal(max(from, 0), min(globalEnd, next));
    if (global < min(globalEnd, next)) return Stretch(global, min(global + globalRun(global), next));
    return Stretch(next, next < to ? min(tileRules.localEnd, to) : to);
}
Stretch nextOfBlocks(int from, int to) {
    const uint words = ruleWord(ruleBlockRow), head = ruleWord(ruleBlockHead);
    const int column = from / rule.blockKeys;
    uint word = uint(column) >> 5, mask = 0xffffffffu << (uint(column) & 31u), bits = 0u;
    const uint end = min((uint((to - 1) / rule.blockKeys) >> 5) + 1u, words);
    for (; word < end; ++word) {
        for (uint h = 0u; h < tileRules.blockHeads; ++h)
            for (uint r = 0u; r < tileRules.blockRows; ++r) bits |= lengths[tileRules.blocksAt + h * head + r * words + word];
        bits &= mask;
        if (bits != 0u) break;
        mask = 0xffffffffu;
    }
    if (bits == 0u) return Stretch(to, to);
    // The run of columns in this word.
    const int first = findLSB(bits), rest = findLSB(~(bits >> first)), count = rest < 0 ? 32 : rest;
    const int begin = (int(word * 32u) + first) * rule.blockKeys;
    return Stretch(clamp(begin, from, to), clamp(begin + count * rule.blockKeys, from, to));
}
// What both say.
Stretch narrowed(Stretch a, Stretch b) { return Stretch(b.begin, b.begin >= a.end ? b.begin + 1 : min(a.end, b.end)); }
bool mayAsk() { return tileRules.shortStretches < ruleWord(ruleSkips); }
Stretch counted(Stretch stretch, int to) {
    if (stretch.end < to && stretch.end - stretch.begin < int(leastStretch)) ++tileRules.shortStretches;
    return stretch;
}
// The next keys from `from` on that some row of the tile may see.
Stretch nextKeys(int from, int to) {
    Stretch keys_ = Stretch(from, to);
    tileRules.named = mayAsk() && from < to;
    if (!tileRules.named) return keys_;
    if (hasLocal) keys_ = nextLocal(from, to, min(to, int(seq.keyCount)));
    if (hasGrid && keys_.begin < to) keys_ = narrowed(keys_, nextOfBox(tileRules.box, keys_.begin, to));
    if (hasBlocks && keys_.begin < to) keys_ = narrowed(keys_, nextOfBlocks(keys_.begin, to));
    return counted(keys_, to);
}

// Of a stretch that nextKeys has named, the keys that every row of the tile sees, as far as rules go.
Stretch wholeKeys(Stretch stretch) {
    Stretch whole = Stretch(stretch.end, stretch.end);
    if (localAlone) {
        // Open sides stay far away.
        whole.begin = max(stretch.begin, tileRules.localBegin + tileRules.spread);
        whole.end = max(min(stretch.end, tileRules.localEnd - tileRules.spread), whole.begin);
    }
    // Rows of one row of blocks, in heads that share it, see the same keys.
    if (blocksAlone && tileRules.named && tileRules.blockRows == 1u && tileRules.blockHeads == 1u) whole = stretch;
    return whole;
}

// A tile of keys.
void beginTileOfKeys(int first, int last) {
    tileRules.shortStretches = 0u;
    if (hasLocal) {
        const int back = stepsTo(ruleLeft), ahead = stepsTo(ruleRight);
        tileRules.localBegin = ahead == int(openSide) ? -ahead : first - ahead;
        tileRules.localEnd = back == int(openSide) ? back : last + back + 1;
        tileRules.all = anyGlobal(first, last);
    }
    if (hasGrid) tileRules.box = boxOfItems(first, last, true, false);
    if (hasBlocks) {
        tileRules.blockFirst = uint(first / rule.blockKeys);
        tileRules.blockLast = uint(last / rule.blockKeys);
    }
}
// The next rows of the chunk from `from` on that may see some key of the tile.
Stretch nextRows(uint head, int from, int to) {
    if (!mayAsk() || from >= to) return Stretch(from, to);
    const int shift = alignedPosition(0u), end = to + shift;
    Stretch positions = Stretch(from + shift, end);
    if (hasLocal) positions = nextLocal(from + shift, end, min(end, int(seq.keyCount)));
    if (hasGrid && positions.begin < end) positions = narrowed(positions, nextOfBox(tileRules.box, positions.begin, end));
    if (hasBlocks && positions.begin < end) {
        const uint size = ruleWord(ruleBlockQueries), stride = ruleWord(ruleBlockRow);
        const uint at = rule.blocksAt + (headFirst + head) * ruleWord(ruleBlockHead);
        const uint last = (queryFirst + uint(to) - 1u) / size, firstWord = tileRules.blockFirst >> 5, lastWord = tileRules.blockLast >> 5;
        uint row = (queryFirst + uint(positions.begin - shift)) / size;
        bool found = false;
        for (; row <= last; ++row) {
            for (uint word = firstWord; word <= lastWord; ++word) {
                uint bits = lengths[at + row * stride + word];
                if (word == firstWord) bits &= 0xffffffffu << (tileRules.blockFirst & 31u);
                if (word == lastWord) bits &= 0xffffffffu >> (31u - (tileRules.blockLast & 31u));
                found = found || bits != 0u;
            }
            if (found) break;
        }
        const int begin = int(row * size) - int(queryFirst) + shift;
        const Stretch rows = found ? Stretch(clamp(begin, positions.begin, end), clamp(begin + int(size), positions.begin, end)) : Stretch(end, end);
        positions = narrowed(positions, rows);
    }
    return counted(Stretch(positions.begin - shift, positions.end - shift), to);
}
// Of passes that own keys or rows: what passes by them.
#ifdef VKATTN_OWNS_KEYS
#define NEXT_ITEMS(head, from, to) nextRows(head, from, to)
#else
#define NEXT_ITEMS(head, from, to) nextKeys(from, to)
#endif
#endif
