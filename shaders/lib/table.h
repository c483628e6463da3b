// The table at the workspace's start, shared by shaders and planner: where batch entries lie, and what rules
// of visibility need; and the push constants of the stages that gather it. A part of interop.h, which says
// what both languages agree on.
#ifndef VKATTN_TABLE_H_
#define VKATTN_TABLE_H_

// The table at the workspace's start, of ragged batches and of problems with rules: a header, then for
// each batch entry or sequence the first query, the number of queries, the first key, the number of keys,
// all of it inside the tensors, whatever the arrays hold (setup/sequences.comp); and, with rules, the prefix
// length, the words back to the header, the number of the entry, and i' - i where offsets are given
// (setup/rules.comp).
// Entries with pages have no first key: the word is the place of their first page in what rulePages is the place of
// (ruleStepRuns).
VKATTN_CONST sequenceWords = 8u;
VKATTN_CONST sequenceFirstPage = 2u;
VKATTN_CONST sequenceKeys = 3u;
VKATTN_CONST sequencePrefix = 4u;
VKATTN_CONST sequenceHeader = 5u;
VKATTN_CONST sequenceEntry = 6u;
VKATTN_CONST sequenceShift = 7u;
// The header. Places are words from the header on; 0: there is no such thing.
VKATTN_CONST ruleHeaderWords = 64u;
VKATTN_CONST ruleDilations = 0u;   // place: of each head
VKATTN_CONST ruleDilation = 1u;    // of all heads, without the place
VKATTN_CONST ruleLeft = 2u;        // of the window, in steps of the dilation
VKATTN_CONST ruleRight = 3u;
VKATTN_CONST ruleGlobals = 4u;     // place: bits of tokens, of each entry
VKATTN_CONST ruleGlobalWords = 5u; // of an entry
VKATTN_CONST ruleSummary = 6u;     // place: a bit for each of these words that is not 0
VKATTN_CONST ruleSummaryWords = 7u;
VKATTN_CONST ruleGrid = 8u;        // vkattn_grid_rule, and the patch of a tile; of each axis, planes first:
VKATTN_CONST ruleExtents = 9u;
VKATTN_CONST ruleSizes = 12u;
VKATTN_CONST ruleShifts = 15u;
VKATTN_CONST ruleBlocks = 18u; // place: bits of blocks
VKATTN_CONST ruleBlockQueries = 19u;
VKATTN_CONST ruleBlockKeys = 20u;
VKATTN_CONST ruleBlockEntry = 21u; // words from one batch entry to the next
VKATTN_CONST ruleBlockHead = 22u;
VKATTN_CONST ruleBlockRow = 23u;
VKATTN_CONST ruleSkips = 24u;      // short stretches that a tile may ask for; 0: it asks for none
VKATTN_CONST ruleWordsGiven = 25u; // the words above
VKATTN_CONST rulePages = 25u;      // place: the page table, or the indices of CSR, as given; written with these (ruleStepPages)
VKATTN_CONST rulePageTokens = 26u;
VKATTN_CONST rulePoolPages = 27u;  // what is not less is an absent page
VKATTN_CONST rulePageWords = 3u;   // these
VKATTN_CONST rulePagesAbsent = 28u; // not 0: some page that an entry's keys lie in is absent
// Of a program (attention/program.glsl): its words, then the places and the lengths of its buffers.
VKATTN_CONST ruleProgram = 32u;
VKATTN_CONST programWordCount = 16u;
VKATTN_CONST programBufferCount = 4u;
VKATTN_CONST ruleProgramPlaces = ruleProgram + programWordCount;
VKATTN_CONST ruleProgramLengths = ruleProgramPlaces + programBufferCount;
VKATTN_CONST ruleProgramWords = programWordCount + 2u * programBufferCount; // all of these
VKATTN_CONST gridClamped = 1u;     // as vkattn_grid_rule, in the first bits
VKATTN_CONST gridCut = 2u;
VKATTN_CONST gridWindows = 3u;
VKATTN_CONST gridPatchRows = 8u;   // bit of the first, 8 bits: the patch of the grid that a tile of flash/ is
VKATTN_CONST gridPatchColumns = 16u; // likewise; 0: a tile has neighbouring queries
VKATTN_CONST openSide = 0x40000000u; // of a window
// Items of a stretch that is not short (attention/skip.glsl).
VKATTN_CONST leastStretch = 128u;
// What setup/rules.comp does: the header and the entries, a copy of numbers that are clamped, the summary of bits,
// or the words of a program.
VKATTN_CONST ruleStepEntries = 0u;
VKATTN_CONST ruleStepCopy = 1u;
VKATTN_CONST ruleStepSummary = 2u;
VKATTN_CONST ruleStepProgram = 3u;
VKATTN_CONST ruleStepOffsets = 4u; // of the entries
VKATTN_CONST ruleStepPages = 5u;   // a copy, and what the header has of pages
VKATTN_CONST ruleStepRuns = 6u;    // which pages each entry has; of CSR also its keys
VKATTN_CONST ruleRagged = 1u; // flags of the entries: setup/sequences.comp writes the first words
VKATTN_CONST ruleKeyLengths = 2u;
VKATTN_CONST rulePrefixLengths = 4u;
VKATTN_CONST ruleQueryOffsets = 8u; // flags of the offsets: which arrays there are
VKATTN_CONST ruleKeyOffsets = 16u;
VKATTN_CONST mostOffset = 1 << 28; // to either side (vkattn_offset)
// Where setup/blocks.comp has blocks from, numbered as in vkattn_block_kind.
VKATTN_CONST blocksOfMask = 1u;
VKATTN_CONST blocksOfLists = 2u;
VKATTN_CONST blocksOfIndices = 3u;
VKATTN_CONST blocksOfBigBird = 4u;
VKATTN_CONST mostRandomBlocks = 64u;

#if defined(__cplusplus) || defined(VKATTN_STAGE_SEQUENCES)
VKATTN_PUSH(SequencesPush) {
    uint sequences;
    uint totalQueries, totalKeys; // extents of the tensors
    uint maxQueries, maxKeys;     // of one sequence
    uint cuQBase, cuKBase;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_RULES)
VKATTN_PUSH(RulesPush) {
    uint what, count; // count: entries, or numbers
    uint firstBase, secondBase;
    uint flags, queryTokens, keyTokens;
    // The header, or what it has of a program. Of a copy: the place, the least and the largest
    // number. Of a summary: its place, and words of an entry, of the summary and of the bits. Of offsets: what
    // is added to those of queries and of keys. Of pages as of a copy, the words of the header, and the pages of an
    // entry of a table, of CSR 0.
    // Of runs: the pages of a row of a table; of CSR 0, then the number of indices, the most pages and the page tokens.
    uint given[ruleWordsGiven];
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_BLOCKS)
VKATTN_PUSH(BlocksPush) {
    uint kind;
    uint add; // 1: to what is there
    uint rows, columns, planes, rowWords;
    uint place;   // of the bits, from the region's start
    uint entries; // of the columns of lists, or of a row of indices
    uint heads;
    uint random, seedLow, seedHigh;
    uint firstBase, secondBase;
};
#endif
#endif
