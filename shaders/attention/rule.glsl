// Rules of visibility that no operand holds for each pair: windows that are dilated or have global tokens,
// grids, blocks of pairs. What they need lies in the table (lib/table.h), gathered by setup/rules.comp and
// setup/blocks.comp. What the rules show: problem.h.
//
// Included by sequence.glsl.
const bool hasLocal = (pairTerms & termLocal) != 0u, hasGrid = (pairTerms & termGrid) != 0u,
           hasBlocks = (pairTerms & termBlocks) != 0u, hasPrefix = (pairTerms & termPrefix) != 0u,
           hasPages = (pairTerms & termPages) != 0u;

// What pairs need again and again, of the batch entry at hand.
struct RuleFacts {
    uint header, globalsAt, summaryAt, blocksAt; // in lengths[]
    uint entry;                                  // of the whole problem
    uvec4 words[4], places, sizes;               // of a program, and of its buffers
    int blockKeys, columns, planeTokens;
    float perBlockKey, perColumn, perPlane; // reciprocals
    uint gridKind;
    int patchRows, patchColumns; // of a tile; 0: it has neighbouring queries
    uint pagesAt, poolPages;     // the entry's first page, in lengths[]
    bool anyAbsent;              // of all pages
    int pageTokens;
    float perPageToken;
};
RuleFacts rule;

// The box of keys that a query of the grid sees.
struct Box {
    int first;  // the key in its corner
    int column; // of the corner
    int planes, rows, columns;
};

// floor(value / by) of 0 <= value < 2^30. Integer division by what is no constant takes long; a float's
// quotient is less than 2^8 / by + 2 off, and that of what it leaves at most 1.
int quotientOf(int value, int by, float reciprocal) {
    int quotient = int(float(value) * reciprocal);
    quotient += int(floor(float(value - quotient * by) * reciprocal));
    const int rest = value - quotient * by;
    return rest < 0 ? quotient - 1 : rest >= by ? quotient + 1 : quotient;
}
int quotientOf(int value, int by) { return quotientOf(value, by, 1.0 / float(by)); }

#ifdef VKATTN_LENGTHS_BOUND
uint ruleWord(uint n) { return lengths[rule.header + n]; }

void beginRules(uint header, uint entry, uint firstPage) {
    rule.header = header;
    rule.entry = entry;
    if ((pairTerms & termsOfHooks) != 0u) { // loads of what no hook asks for are dropped by compilers
        [[unroll]] for (uint n = 0u; n < programWordCount; ++n) rule.words[n / 4u][n % 4u] = ruleWord(ruleProgram + n);
        [[unroll]] for (uint n = 0u; n < programBufferCount; ++n) {
            rule.places[n] = header + ruleWord(ruleProgramPlaces + n);
            rule.sizes[n] = ruleWord(ruleProgramLengths + n);
        }
    }
    if (hasLocal) {
        rule.globalsAt = header + ruleWord(ruleGlobals) + entry * ruleWord(ruleGlobalWords);
        rule.summaryAt = header + ruleWord(ruleSummary) + entry * ruleWord(ruleSummaryWords);
    }
    if (hasBlocks) {
        rule.blocksAt = header + ruleWord(ruleBlocks) + entry * ruleWord(ruleBlockEntry);
        rule.blockKeys = int(ruleWord(ruleBlockKeys));
        rule.perBlockKey = 1.0 / float(rule.blockKeys);
    }
    if (hasPages) {
        rule.pagesAt = header + ruleWord(rulePages) + firstPage;
        rule.poolPages = ruleWord(rulePoolPages);
        rule.anyAbsent = ruleWord(rulePagesAbsent) != 0u;
        rule.pageTokens = int(ruleWord(rulePageTokens));
        rule.perPageToken = 1.0 / float(rule.pageTokens);
    }
    if (hasGrid) {
        const uint grid = ruleWord(ruleGrid);
        rule.gridKind = grid & 0xffu;
        rule.patchRows = int(grid >> gridPatchRows & 0xffu);
        rule.patchColumns = int(grid >> gridPatchColumns & 0xffu);
        rule.columns = int(ruleWord(ruleExtents + 2u));
        rule.planeTokens = rule.columns * int(ruleWord(ruleExtents + 1u));
        rule.perColumn = 1.0 / float(rule.columns);
        rule.perPlane = 1.0 / float(rule.planeTokens);
    }
}

// What the page table has of the page of a key: data, and never trusted.
uint pageOf(int key) { return lengths[rule.pagesAt + uint(quotientOf(key, rule.pageTokens, rule.perPageToken))]; }

// What an axis of the grid shows to coordinate c.
struct AxisRange {
    int begin, end;
};
AxisRange axisRange(uint axis, int c) {
    const int extent = int(ruleWord(ruleExtents + axis)), size = int(ruleWord(ruleSizes + axis)), shift = int(ruleWord(ruleShifts + axis));
    if (rule.gridKind == gridClamped) {
        const int begin = clamp(c - size / 2, 0, extent - size);
        return AxisRange(begin, begin + size);
    }
    if (rule.gridKind == gridCut) return AxisRange(max(c - size / 2, 0), min(c + size / 2 + 1, extent));
    const int window = quotientOf(c - shift + size, size); // the first one ends at the shift
    return AxisRange(max((window - 1) * size + shift, 0), min(window * size + shift, extent));
}
// The outermost axis with more than one token, and how many tokens share a coordinate of it.
uint outerAxis() { return ruleWord(ruleExtents) > 1u ? 0u : ruleWord(ruleExtents + 1u) > 1u ? 1u : 2u; }
int outerTokens(uint axis) { return axis == 0u ? rule.planeTokens : axis == 1u ? rule.columns : 1; }
// Keys that the outermost axis shows to a position. Both ends never fall as the position rises.
AxisRange outerKeys(int position) {
    const uint axis = outerAxis();
    const int tokens = outerTokens(axis), extent = int(ruleWord(ruleExtents + axis)), c = quotientOf(max(position, 0), tokens);
    if (position < 0) return AxisRange(0, 0);
    if (c >= extent) return AxisRange(extent * tokens, extent * tokens);
    const AxisRange range = axisRange(axis, c);
    return AxisRange(range.begin * tokens, range.end * tokens);
}
// Positions that may see one of the keys [first, last]: no box is longer than its size.
AxisRange outerPositions(int first, int last) {
    const uint axis = outerAxis();
    const int tokens = outerTokens(axis), extent = int(ruleWord(ruleExtents + axis));
    const int size = min(int(ruleWord(ruleSizes + axis)), extent);
    return AxisRange((first / tokens - size + 1) * tokens, (last / tokens + size) * tokens);
}

bool isGlobal(uint token) { return (lengths[rule.globalsAt + (token >> 5)] >> (token & 31u) & 1u) != 0u; }

Box boxOf(int position) {
    const int extent = int(ruleWord(ruleExtents)) * rule.planeTokens;
    if (position < 0 || position >= extent) return Box(0, 0, 0, 0, 0);
    const int plane = quotientOf(position, rule.planeTokens, rule.perPlane), inPlane = position - plane * rule.planeTokens;
    const int row = quotientOf(inPlane, rule.columns, rule.perColumn);
    const AxisRange z = axisRange(0u, plane), y = axisRange(1u, row), x = axisRange(2u, inPlane - row * rule.columns);
    return Box(z.begin * rule.planeTokens + y.begin * rule.columns + x.begin, x.begin, z.end - z.begin, y.end - y.begin, x.end - x.begin);
}
bool boxHas(Box box, int key) {
    int at = max(key - box.first, 0);
    bool inside = key >= box.first;
    if ((pairTerms & termPlanes) != 0u) {
        const int plane = quotientOf(at, rule.planeTokens, rule.perPlane);
        at -= plane * rule.planeTokens;
        inside = inside && plane < box.planes;
    }
    const int row = quotientOf(at, rule.columns, rule.perColumn);
    return inside && box.planes > 0 && row < box.rows && at - row * rule.columns < box.columns;
}
// Keys of the box in the row of the grid that a key lies in.
AxisRange boxRun(Box box, int key) {
    const int rowFirst = quotientOf(key, rule.columns, rule.perColumn) * rule.columns;
    int at = rowFirst - (box.first - box.column);
    bool inside = at >= 0;
    if ((pairTerms & termPlanes) != 0u) {
        const int plane = quotientOf(max(at, 0), rule.planeTokens, rule.perPlane);
        at -= plane * rule.planeTokens;
        inside = inside && plane < box.planes;
    }
    inside = inside && at < box.rows * rule.columns;
    return AxisRange(rowFirst + box.column, rowFirst + box.column + (inside ? box.columns : 0));
}
#endif
