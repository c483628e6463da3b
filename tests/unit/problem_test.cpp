// Every rule of problem.h is enforced, with a message that says what was wrong.
#include "problem/problem.hpp"
#include "vkattn/vkattn.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace vkattn;

namespace {

vkattn_problem valid() {
    return problem(packed(VKATTN_F32, 2, 4, 5, 8), packed(VKATTN_F32, 2, 2, 7, 8), packed(VKATTN_F16, 2, 2, 7, 6),
                   packed(VKATTN_F32, 2, 4, 5, 6));
}

constexpr uint32_t bit(vkattn_role role) {
    return VKATTN_PRESENT(role);
}

// Three sequences, in 10 queries and 20 keys.
vkattn_problem ragged() {
    vkattn_problem p = problem(packed(VKATTN_F32, 1, 4, 10, 8), packed(VKATTN_F32, 1, 2, 20, 8), packed(VKATTN_F16, 1, 2, 20, 6),
                               packed(VKATTN_F32, 1, 4, 10, 6));
    p.presentRoles = bit(VKATTN_CU_SEQ_Q) | bit(VKATTN_CU_SEQ_K);
    p.sequences = 3;
    return p;
}

struct Rejection {
    const char *name;
    const char *message; // part of it
    std::function<void(vkattn_problem &)> spoil;
};

const Rejection rejections[] = {
    {"structSize", "structSize", [](auto &p) { p.structSize = 3; }},
    {"unknownFlag", "unknown bits", [](auto &p) { p.flags = 1u << 20; }},
    {"nanScale", "scale is nan", [](auto &p) { p.flags = VKATTN_SCALE, p.scale = NAN; }},
    {"scaleWithoutFlag", "VKATTN_SCALE", [](auto &p) { p.scale = 2; }},
    {"infiniteSoftcap", "softcap", [](auto &p) { p.softcap = INFINITY; }},
    {"denormalSoftcap", "2^-126", [](auto &p) { p.softcap = 1e-40f; }},
    {"negativeSoftcap", "softcap", [](auto &p) { p.softcap = -1; }},
    {"negativeDropout", "dropout is -0.1, expected a probability from 0 to 1", [](auto &p) { p.dropout = -0.1; }},
    {"dropoutAboveOne", "dropout is 1.5, expected a probability", [](auto &p) { p.dropout = 1.5; }},
    {"dropoutNan", "expected a probability", [](auto &p) { p.dropout = NAN; }},
    {"seedWithoutDropout", "dropoutSeed 7 and dropoutOffset 0 are set with a dropout of 0", [](auto &p) { p.dropoutSeed = 7; }},
    {"offsetWithoutDropout", "set the probability to use them", [](auto &p) { p.dropoutOffset = 7; }},
    {"weightsDroppedWithoutWeights", "VKATTN_WEIGHTS_DROPPED is set without weights",
     [](auto &p) { p.dropout = 0.5, p.flags = VKATTN_WEIGHTS_DROPPED; }},
    {"stageWithoutScores", "scoresStage is 3 without scores; give scores a layout", [](auto &p) { p.scoresStage = VKATTN_SCORES_FINAL; }},
    {"noSuchStage", "scoresStage is 4, expected a vkattn_score_stage, 0 to 3",
     [](auto &p) { p.scoresStage = static_cast<vkattn_score_stage>(4), p.scores = packed(VKATTN_F32, 1, 1, 1, 1); }},
    {"scoresOfOtherPairs", "scores", [](auto &p) { p.scores = packed(VKATTN_F32, 1, 1, 1, 1); }},
    {"scoresOfWords", "scores",
     [](auto &p) { p.scores = packed(VKATTN_BITS32, p.q.extent[0], p.q.extent[1], p.q.extent[2], p.k.extent[2]); }},
    {"planesOfDropout", "expected less than 2^32",
     [](auto &p) {
         p.dropout = 0.5;
         p.q = p.out = packed(VKATTN_F32, 1u << 20, 1u << 12, 1, 1), p.k = p.v = packed(VKATTN_F32, 1u << 20, 1u << 12, 1, 1);
     }},
    {"negativeWindow", "negative window", [](auto &p) { p.flags = VKATTN_WINDOW, p.windowLeft = -2; }},
    {"windowWithoutFlag", "VKATTN_WINDOW", [](auto &p) { p.windowRight = 2; }},
    {"noKeys", "k has no layout", [](auto &p) { p.k = {}; }},
    {"zeroHeads", "at least 1", [](auto &p) { p.q.extent[1] = 0; }},
    {"zeroDim", "at least 1", [](auto &p) { p.v.extent[3] = 0; }},
    {"maskDtype", "VKATTN_BOOL8", [](auto &p) { p.mask = packed(VKATTN_F32, 2, 4, 5, 7); }},
    {"qDtype", "q has dtype", [](auto &p) { p.q.dtype = VKATTN_BOOL8; }},
    {"unknownDtype", "dtype 77", [](auto &p) { p.q.dtype = static_cast<vkattn_dtype>(77); }},
    {"lseDtype", "VKATTN_F32", [](auto &p) { p.lse = packed(VKATTN_F16, 2, 4, 5, 1); }},
    {"headsDoNotDivide", "do not divide", [](auto &p) { p.k = packed(VKATTN_F32, 2, 3, 7, 8), p.v = packed(VKATTN_F16, 2, 3, 7, 6); }},
    {"headDimDiffers", "head dim must agree", [](auto &p) { p.k = packed(VKATTN_F32, 2, 2, 7, 9); }},
    {"batchDiffers", "batch and head dim", [](auto &p) { p.k = packed(VKATTN_F32, 3, 2, 7, 8); }},
    {"valueTokensDiffer", "v is [2, 2, 6, 6]", [](auto &p) { p.v = packed(VKATTN_F16, 2, 2, 6, 6); }},
    {"outDiffers", "out is", [](auto &p) { p.out = packed(VKATTN_F32, 2, 4, 5, 8); }},
    {"lseDiffers", "lse is", [](auto &p) { p.lse = packed(VKATTN_F32, 2, 4, 6, 1); }},
    {"weightsDiffer", "weights is", [](auto &p) { p.weights = packed(VKATTN_F32, 2, 4, 5, 8); }},
    {"biasDoesNotBroadcast", "or 1 where it broadcasts", [](auto &p) { p.bias = packed(VKATTN_F32, 2, 3, 5, 7); }},
    {"dimTooLarge", "at most 2048", [](auto &p) { p.q = packed(VKATTN_F32, 2, 4, 5, 2049), p.k = packed(VKATTN_F32, 2, 2, 7, 2049); }},
    {"tooManyTokens", "tokens", [](auto &p) { p.q.extent[2] = (1u << 30) + 1; }},
    {"strideOverflow", "overflows 64-bit addressing", [](auto &p) { p.q.strideElems[0] = INT64_MAX; }},
    {"strideMinimum", "overflows 64-bit addressing", [](auto &p) { p.q.strideElems[0] = INT64_MIN; }},
    {"offsetOverflow", "offsetElems", [](auto &p) { p.q.offsetElems = UINT64_MAX; }},
    {"negativeReach", "raise offsetElems", [](auto &p) { p.q.strideElems[2] = -8; }},
    {"outputOverlaps", "overlaps itself", [](auto &p) { p.out.strideElems[1] = 29; }},
    {"outputOverlapsBackwards", "overlaps itself", [](auto &p) { p.out.strideElems[1] = -29, p.out.offsetElems = 3 * 29; }},
    {"outputTokensOverlapBackwards", "overlaps itself", [](auto &p) { p.out.strideElems[2] = -5, p.out.offsetElems = 4 * 5; }},
    {"outputStrideZero", "overlaps itself", [](auto &p) { p.out.strideElems[0] = 0; }},
    {"valuesInKeysIsKnownTheNextIsNot", "unknown bits 0x40", [](auto &p) { p.flags = VKATTN_VALUES_IN_KEYS | 64; }},
    {"valuesInKeysAndValues", "v has a layout with VKATTN_VALUES_IN_KEYS, expected all of it zero",
     [](auto &p) { p.flags = VKATTN_VALUES_IN_KEYS; }},
    {"valuesInKeysAndAnOffset", "clear v, or the flag", [](auto &p) { p.flags = VKATTN_VALUES_IN_KEYS, p.v = {}, p.v.offsetElems = 1; }},
    {"moreValuesThanKeysHold", "out has 9 value dims with VKATTN_VALUES_IN_KEYS, expected at most the 8 dims of k",
     [](auto &p) { p.flags = VKATTN_VALUES_IN_KEYS, p.v = {}, p.out = packed(VKATTN_F32, 2, 4, 5, 9); }},
    {"noValues", "v has no layout", [](auto &p) { p.v = {}; }},
    {"unknownKernel", "problem.kernel is 16", [](auto &p) { p.kernel = static_cast<vkattn_kernel>(16); }},
    {"noRoleInPresentRoles", "presentRoles has bits 0x80, expected only VKATTN_PRESENT(role)",
     [](auto &p) { p.presentRoles = bit(VKATTN_ALIBI_SLOPES) << 1; }},
    {"roleOfAnotherOperation", "presentRoles has bits 0x20000000", [](auto &p) { p.presentRoles = bit(VKATTN_SINKS) | bit(VKATTN_CACHE); }},
    {"documentsOfQueriesAlone", "document ids of queries are in presentRoles without",
     [](auto &p) { p.presentRoles = bit(VKATTN_DOC_IDS_Q); }},
    {"documentsOfKeysAlone", "document ids of keys are in presentRoles without", [](auto &p) { p.presentRoles = bit(VKATTN_DOC_IDS_K); }},
    {"cuSeqOfQueriesAlone", "cu_seqlens of queries are in presentRoles without",
     [](auto &p) { p.presentRoles = bit(VKATTN_CU_SEQ_Q), p.sequences = 1; }},
    {"cuSeqOfKeysAlone", "cu_seqlens of keys are in presentRoles without", [](auto &p) { p.presentRoles = bit(VKATTN_CU_SEQ_K); }},
    {"raggedWithLengths", "have their lengths in cu_seqlens", [](auto &p) { p = ragged(), p.presentRoles |= bit(VKATTN_KEY_LENGTHS); }},
    {"sequencesWithoutCuSeq", "without VKATTN_CU_SEQ_Q", [](auto &p) { p.sequences = 2; }},
    {"maxSeqQWithoutCuSeq", "without VKATTN_CU_SEQ_Q", [](auto &p) { p.maxSeqQ = 2; }},
    {"maxSeqKWithoutCuSeq", "without VKATTN_CU_SEQ_Q", [](auto &p) { p.maxSeqK = 2; }},
    {"noSequences", "a ragged batch has 0 sequences", [](auto &p) { p = ragged(), p.sequences = 0; }},
    {"tooManySequences", "expected 1 to", [](auto &p) { p = ragged(), p.sequences = (1u << 30) + 1; }},
    {"raggedWithBatch", "in a batch extent of 1",
     [](auto &p) {
         p.presentRoles = bit(VKATTN_CU_SEQ_Q) | bit(VKATTN_CU_SEQ_K);
         p.sequences = 2;
     }},
    {"maxSeqQTooLarge", "maxSeqQ 11 and maxSeqK 0, expected at most the 10 queries", [](auto &p) { p = ragged(), p.maxSeqQ = 11; }},
    {"maxSeqKTooLarge", "and 20 keys that there are", [](auto &p) { p = ragged(), p.maxSeqK = 21; }},
    {"raggedWeightsOfTheTotalsAlone", "weights is [1, 4, 10, 20], expected [3, 4, 10, 20]",
     [](auto &p) { p = ragged(), p.weights = packed(VKATTN_F32, 1, 4, 10, 20); }},
    {"raggedBiasPastTheMaximum", "bias is [3, 4, 10, 20], expected [3, 4, 5, 20]",
     [](auto &p) { p = ragged(), p.maxSeqQ = 5, p.bias = packed(VKATTN_F32, 3, 4, 10, 20); }},
    {"raggedLseBySequence", "lse is [3, 4, 10, 1]", [](auto &p) { p = ragged(), p.lse = packed(VKATTN_F32, 3, 4, 10, 1); }},
    {"raggedOutBySequence", "out is [3,", [](auto &p) { p = ragged(), p.out = packed(VKATTN_F32, 3, 4, 10, 6); }},
    {"dilationWithoutWindow", "dilation is set without VKATTN_WINDOW", [](auto &p) { p.dilation = 2; }},
    {"dilationsWithoutWindow", "dilations are in presentRoles without VKATTN_WINDOW",
     [](auto &p) { p.presentRoles = bit(VKATTN_DILATIONS), p.dilation = 1; }},
    {"dilationsWithoutTheLargest", "dilation is 0, expected the most that a head may have",
     [](auto &p) { p.flags = VKATTN_WINDOW, p.presentRoles = bit(VKATTN_DILATIONS); }},
    {"dilationTooLarge", "dilation is 1048577, expected at most 1048576", [](auto &p) { p.flags = VKATTN_WINDOW, p.dilation = (1u << 20) + 1; }},
    {"globalTokensWithoutWindow", "global tokens are in presentRoles without VKATTN_WINDOW",
     [](auto &p) { p.presentRoles = bit(VKATTN_GLOBAL_TOKENS); }},
    {"prefixWithoutCausal", "prefix lengths are in presentRoles without VKATTN_CAUSAL",
     [](auto &p) { p.presentRoles = bit(VKATTN_PREFIX_LENGTHS); }},
    {"unknownOffset", "queryOffset.kind is 3, expected a vkattn_offset_kind, 0 to 2",
     [](auto &p) { p.queryOffset.kind = static_cast<vkattn_offset_kind>(3); }},
    {"offsetWithoutKind", "keyOffset.tokens is 5 with VKATTN_OFFSET_NONE", [](auto &p) { p.keyOffset.tokens = 5; }},
    {"offsetTooLarge", "queryOffset.tokens is 268435457, expected -268435456 to 268435456",
     [](auto &p) { p.queryOffset = {VKATTN_OFFSET_NUMBER, (1 << 28) + 1}; }},
    {"tablePagesWithoutATable", "tablePages is 3 without pages", [](auto &p) { p.tablePages = 3; }},
    {"pagesAndRagged", "pages and cu_seqlens are both given",
     [](auto &p) {
         p.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE) | VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
         p.sequences = 1;
     }},
    {"pagesAndScores", "scores have a layout with pages",
     [](auto &p) {
         p.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE), p.tablePages = 1;
         p.scores = packed(VKATTN_F32, 1, 1, 1, 1);
     }},
    {"pagesInBothForms", "in a table or in CSR, not in both",
     [](auto &p) { p.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE), p.tablePages = 1, p.pageIndices = 4; }},
    {"csrAndKeyLengths", "key lengths and pageIndices are both given",
     [](auto &p) { p.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS), p.tablePages = 1, p.pageIndices = 4; }},
    {"tooManyPages", "expected at most", [](auto &p) { p.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE), p.tablePages = 1u << 31; }},
    {"segmentWithoutValues", "k1 has a layout without v1", [](auto &p) { p.k1 = p.k; }},
    {"segmentWithoutKeys", "v2 has a layout without k2", [](auto &p) { p.v2 = p.v; }},
    {"segmentsWithAGap", "k2 has a layout and k1 has none", [](auto &p) { p.k2 = p.k, p.v2 = p.v; }},
    {"segmentOfOtherKeys", "v1 is [", [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.v1.extent[2] = 3; }},
    {"segmentOfOtherDims", "k1 is [", [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.k1.extent[3] = 3; }},
    {"segmentOfAnotherType", "k1 has dtype 1 and k has 0", [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.k1.dtype = VKATTN_F16; }},
    {"segmentWithOtherDimStrides", "segments have one stride between dims", [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.v1.strideElems[3] = 2; }},
    {"emptySegment", "k1 has no keys", [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.k1.extent[2] = p.v1.extent[2] = 0; }},
    {"emptyFirstSegment", "k has no keys and k1 has a layout",
     [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.k.extent[2] = p.v.extent[2] = 0; }},
    {"tooManySegmentKeys", "expected at most 1073741824",
     [](auto &p) {
         p.k.extent[2] = p.v.extent[2] = 1u << 30, p.k.strideElems[2] = p.v.strideElems[2] = 0;
         p.k1 = p.k, p.v1 = p.v;
     }},
    {"segmentsAndPages", "k1 and pages are both given",
     [](auto &p) { p.k1 = p.k, p.v1 = p.v, p.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE), p.tablePages = 1; }},
    {"segmentsAndRagged", "k1 and cu_seqlens are both given",
     [](auto &p) {
         p.k1 = p.k, p.v1 = p.v, p.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K), p.sequences = 1;
     }},
    {"priorOutAlone", "priorOut has a layout without priorLse", [](auto &p) { p.priorOut = p.out; }},
    {"priorLseAlone", "priorLse has a layout without priorOut", [](auto &p) { p.priorLse = packed(VKATTN_F32, 1, 1, 1, 1); }},
    {"priorOfOtherRows", "priorOut is [", [](auto &p) { p.priorOut = p.out, p.priorOut.extent[2] += 1, p.priorLse = packed(VKATTN_F32, 1, 1, 1, 1); }},
    {"priorAndDropout", "priorOut and dropout are both given",
     [](auto &p) {
         p.priorOut = p.out, p.priorLse = packed(VKATTN_F32, p.out.extent[0], p.out.extent[1], p.out.extent[2], 1), p.dropout = 0.5;
     }},
    {"priorAndStatistics", "priorOut and VKATTN_ROW_STATISTICS are both given",
     [](auto &p) {
         p.priorOut = p.out, p.priorLse = packed(VKATTN_F32, p.out.extent[0], p.out.extent[1], p.out.extent[2], 1);
         p.lse = packed(VKATTN_F32, p.out.extent[0], p.out.extent[1], p.out.extent[2], 2), p.flags = VKATTN_ROW_STATISTICS;
     }},
    {"shortMaskAndWeights", "mask or bias has 3 keys, fewer than the 7 of k, beside weights",
     [](auto &p) {
         p.mask = packed(VKATTN_BOOL8, 1, 1, 1, 3);
         p.weights = packed(VKATTN_F32, p.q.extent[0], p.q.extent[1], p.q.extent[2], 7);
     }},
    {"shortMaskAndLengths", "key lengths say where queries stand",
     [](auto &p) { p.mask = packed(VKATTN_BOOL8, 1, 1, 1, 3), p.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS), p.flags = VKATTN_CAUSAL; }},
    {"longMask", "mask is [", [](auto &p) { p.mask = packed(VKATTN_BOOL8, 1, 1, 1, 9); }},
    {"offsetTooSmall", "keyOffset.tokens is -268435457", [](auto &p) { p.keyOffset = {VKATTN_OFFSET_ARRAY, -(1 << 28) - 1}; }},
    {"unknownGrid", "grid.rule is 4, expected a vkattn_grid_rule", [](auto &p) { p.grid.rule = static_cast<vkattn_grid_rule>(4); }},
    {"gridWithoutRule", "grid has rows 3, size 0 and shift 0 with VKATTN_GRID_NONE", [](auto &p) { p.grid.extent[1] = 3; }},
    {"gridOfOtherTokens", "which are 6 tokens, expected as many as the 7 keys", [](auto &p) { p.grid = {VKATTN_GRID_CUT, {0, 2, 3}, {0, 1, 1}, {}}; }},
    {"gridTooLarge", "expected at most 1073741824 tokens", [](auto &p) { p.grid = {VKATTN_GRID_CUT, {1u << 20, 1u << 20, 7}, {}, {}}; }},
    {"gridSizeEven", "grid.size of columns is 2, expected an odd number", [](auto &p) { p.grid = {VKATTN_GRID_CUT, {0, 0, 7}, {0, 0, 2}, {}}; }},
    {"gridSizeAboveExtent", "grid.size of columns is 9, expected at most the 7",
     [](auto &p) { p.grid = {VKATTN_GRID_CLAMPED, {0, 0, 7}, {0, 0, 9}, {}}; }},
    {"gridSizeTooLarge", "grid.size of columns is 4294967295", [](auto &p) { p.grid = {VKATTN_GRID_CUT, {0, 0, 7}, {0, 0, UINT32_MAX}, {}}; }},
    {"gridShiftOfNeighbourhoods", "expected 0: only windows are shifted", [](auto &p) { p.grid = {VKATTN_GRID_CUT, {0, 0, 7}, {0, 0, 3}, {0, 0, 1}}; }},
    {"gridShiftAboveSize", "grid.shift of columns is 3, expected less than the size",
     [](auto &p) { p.grid = {VKATTN_GRID_WINDOWS, {0, 0, 7}, {0, 0, 3}, {0, 0, 3}}; }},
    {"unknownBlocks", "blocks.kind is 5, expected a vkattn_block_kind", [](auto &p) { p.blocks.kind = static_cast<vkattn_block_kind>(5); }},
    {"blocksWithoutKind", "blocks have sizes with VKATTN_BLOCKS_NONE", [](auto &p) { p.blocks.queries = 4; }},
    {"blocksWithoutSize", "a block has 4 queries and 0 keys", [](auto &p) { p.blocks = {VKATTN_BLOCKS_MASK, 4, 0, 0, 0, 0, 0, 0, 0}; }},
    {"blocksOfOtherHeads", "and 3 heads, expected 1, or the 2 and 4 that there are",
     [](auto &p) { p.blocks = {VKATTN_BLOCKS_MASK, 4, 4, 0, 3, 0, 0, 0, 0}; }},
    {"blocksFullOfAMask", "blocks.full is 1, expected 0", [](auto &p) { p.blocks = {VKATTN_BLOCKS_MASK, 4, 4, 0, 0, 0, 1, 0, 0}; }},
    {"blockEntriesOfAMask", "blocks.entries is 3, expected 0", [](auto &p) { p.blocks = {VKATTN_BLOCKS_MASK, 4, 4, 0, 0, 3, 0, 0, 0}; }},
    {"blockEntriesOfARow", "blocks.entries is 3, expected at most the 2 columns", [](auto &p) { p.blocks = {VKATTN_BLOCKS_INDICES, 4, 4, 0, 0, 3, 0, 0, 0}; }},
    {"randomBlocksOfAMask", "only VKATTN_BLOCKS_BIGBIRD draws blocks", [](auto &p) { p.blocks = {VKATTN_BLOCKS_MASK, 4, 4, 0, 0, 0, 0, 1, 0}; }},
    {"bigBirdNeedsASquare", "5 queries with 7 keys, expected as many queries as keys",
     [](auto &p) { p.blocks = {VKATTN_BLOCKS_BIGBIRD, 2, 0, 0, 0, 0, 0, 1, 0}; }},
    {"bigBirdOfOtherBlocks", "BigBird has blocks of 2 x 3", [](auto &p) { p.blocks = {VKATTN_BLOCKS_BIGBIRD, 2, 3, 0, 0, 0, 0, 1, 0}; }},
    {"maskAndBitMask", "mask and bit mask are both given",
     [](auto &p) { p.mask = packed(VKATTN_BOOL8, 2, 4, 5, 7), p.bitMask = packed(VKATTN_BITS32, 2, 4, 5, 1); }},
    {"bitMaskDtype", "bit mask has dtype 3, expected VKATTN_BITS32", [](auto &p) { p.bitMask = packed(VKATTN_BOOL8, 2, 4, 5, 1); }},
    {"bitsAsMask", "mask has dtype 4, expected VKATTN_BOOL8", [](auto &p) { p.mask = packed(VKATTN_BITS32, 2, 4, 5, 7); }},
    {"bitsAsKeys", "k has dtype 4, expected VKATTN_F32, VKATTN_F16, VKATTN_BF16, VKATTN_FP8_E4M3", [](auto &p) { p.k.dtype = VKATTN_BITS32; }},
    {"bitMaskKeysInsteadOfWords", "bit mask has 7 words a row, expected 1: one bit for each of 7 keys",
     [](auto &p) { p.bitMask = packed(VKATTN_BITS32, 2, 4, 5, 7); }},
    {"bitMaskHeads", "bit mask is [2, 3, 5, 1]", [](auto &p) { p.bitMask = packed(VKATTN_BITS32, 2, 3, 5, 1); }},
    {"lseBf16", "lse has dtype 2, expected VKATTN_F32", [](auto &p) { p.lse = packed(VKATTN_BF16, 2, 4, 5, 1); }},
    {"raggedPairs", "2^50",
     [](auto &p) {
         p = ragged(), p.sequences = 1u << 30, p.q.extent[1] = 8192, p.out.extent[1] = 8192, p.q.strideElems[1] = 80,
         p.out.strideElems[1] = 60;
     }},
    {"tooManyPairs", "2^50",
     [](auto &p) {
         for (vkattn_layout *l : {&p.q, &p.k, &p.v}) {
             std::fill_n(l->strideElems, 4, 0);
             l->extent[2] = 1u << 30;
         }
         p.out = packed(VKATTN_F32, 2, 4, 1u << 30, 6);
     }},
};

} // namespace

TEST(Problem, acceptsWhatIsValid) {
    vkattn_diagnostic why{};
    vkattn_problem p = valid();
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    p.q.strideElems[2] = -8, p.q.offsetElems = 32; // tokens backwards
    p.k.strideElems[1] = 0;                        // both heads share keys
    p.mask = packed(VKATTN_BOOL8, 1, 1, 5, 7);
    p.bias = packed(VKATTN_F16, 2, 4, 1, 1);
    p.lse = packed(VKATTN_F32, 2, 4, 5, 1);
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    for (vkattn_layout *l : {&p.k, &p.v}) l->extent[2] = 0; // no keys
    p.mask.extent[3] = 0;
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_K), 0u);
}

TEST(Problem, rejectsWithAReason) {
    for (const Rejection &r : rejections) {
        vkattn_problem p = valid();
        r.spoil(p);
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_ERROR_INVALID_ARGUMENT) << r.name;
        EXPECT_NE(std::string(why.message).find(r.message), std::string::npos) << r.name << ": " << why.message;
        EXPECT_EQ(vkattnValidateProblem(&p, nullptr), VKATTN_ERROR_INVALID_ARGUMENT) << r.name;
        EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_Q), 0u) << r.name;
    }
    EXPECT_EQ(vkattnValidateProblem(nullptr, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST(Problem, acceptsTheOptionsAndSizesTheirArrays) {
    vkattn_diagnostic why{};
    vkattn_problem p = valid();
    for (vkattn_layout *l : {&p.q, &p.k, &p.v, &p.out}) l->dtype = VKATTN_BF16;
    p.weights = packed(VKATTN_BF16, 2, 4, 5, 7);
    p.bias = packed(VKATTN_BF16, 1, 4, 5, 7);
    p.bitMask = packed(VKATTN_BITS32, 2, 1, 5, 1);
    p.flags = VKATTN_DETERMINISTIC;
    p.presentRoles = bit(VKATTN_KEY_LENGTHS) | bit(VKATTN_DOC_IDS_Q) | bit(VKATTN_DOC_IDS_K) | bit(VKATTN_SINKS) | bit(VKATTN_ALIBI_SLOPES);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
        p.kernel = kernel;
        EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    }
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_K), 2u * 2 * 7 * 8 * 2);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_BIT_MASK), 2u * 5 * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_KEY_LENGTHS), 2u * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_DOC_IDS_Q), 2u * 5 * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_DOC_IDS_K), 2u * 7 * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_SINKS), 4u * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_ALIBI_SLOPES), 4u * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_CU_SEQ_Q), 0u);

    for (const uint32_t keys : {0u, 1u, 31u, 32u, 33u, 64u, 65u}) {
        vkattn_problem words = valid();
        for (vkattn_layout *l : {&words.k, &words.v}) l->extent[2] = keys, l->strideElems[0] = l->strideElems[1] * 2;
        words.bitMask = packed(VKATTN_BITS32, 1, 1, 1, (keys + 31) / 32);
        EXPECT_EQ(vkattnValidateProblem(&words, &why), VKATTN_OK) << keys << why.message;
        ++words.bitMask.extent[3];
        EXPECT_EQ(vkattnValidateProblem(&words, &why), VKATTN_ERROR_INVALID_ARGUMENT) << keys;
    }
}

TEST(Problem, valuesInKeysAreTheirFirstDims) {
    vkattn_problem p = valid();
    p.flags = VKATTN_VALUES_IN_KEYS;
    p.k = {VKATTN_BF16, {2, 2, 7, 8}, {1000, 500, -9, 2}, 60};
    p.v = {};
    for (const uint32_t dims : {1u, 6u, 8u}) {
        p.out = packed(VKATTN_F32, 2, 4, 5, dims);
        Problem canonical;
        vkattn_diagnostic why{};
        ASSERT_EQ(makeProblem(&p, canonical, &why), VKATTN_OK) << why.message;
        const Tensor &k = canonical.tensor(VKATTN_K), &v = canonical.tensor(VKATTN_V);
        EXPECT_EQ(canonical.valueDim, dims);
        EXPECT_EQ(v.dtype, VKATTN_BF16);
        for (uint32_t t = 0; t < 7; ++t)
            for (uint32_t d = 0; d < dims; ++d) EXPECT_EQ(v.index(1, 1, t, d), k.index(1, 1, t, d));
        EXPECT_EQ(v.stride[3], dims > 1 ? 2 : 0);
        EXPECT_EQ(canonical.memoryOf(VKATTN_V), VKATTN_K);
        EXPECT_FALSE(canonical.uses(VKATTN_V));
        EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_V), 0u);
        EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_K), 2u * (60 + 1000 + 500 + 7 * 2 + 1));
    }
}

TEST(Problem, raggedBatchesCountSequences) {
    vkattn_diagnostic why{};
    vkattn_problem p = ragged();
    Problem canonical;
    ASSERT_EQ(makeProblem(&p, canonical, &why), VKATTN_OK) << why.message;
    EXPECT_TRUE(canonical.ragged());
    EXPECT_EQ(canonical.batch, 3u);
    EXPECT_EQ(canonical.queryTokens, 10u); // maxSeq 0: the totals
    EXPECT_EQ(canonical.keyTokens, 20u);
    p.maxSeqQ = 5, p.maxSeqK = 7;
    p.presentRoles |= bit(VKATTN_DOC_IDS_Q) | bit(VKATTN_DOC_IDS_K);
    p.weights = packed(VKATTN_F32, 3, 4, 5, 7);
    p.bias = packed(VKATTN_F32, 1, 4, 5, 7);
    p.bitMask = packed(VKATTN_BITS32, 3, 1, 5, 1);
    p.lse = packed(VKATTN_F32, 1, 4, 10, 1);
    ASSERT_EQ(makeProblem(&p, canonical, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(canonical.queryTokens, 5u);
    EXPECT_EQ(canonical.keyTokens, 7u);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_CU_SEQ_Q), 4u * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_CU_SEQ_K), 4u * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_DOC_IDS_Q), 10u * 4); // of the totals
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_DOC_IDS_K), 20u * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_OUT), 4u * 10 * 6 * 4);
}

TEST(Problem, causalAndWindowAreOneRange) {
    vkattn_problem p = valid();
    Problem canonical;
    p.flags = VKATTN_CAUSAL | VKATTN_WINDOW;
    p.windowLeft = 3, p.windowRight = 5;
    ASSERT_EQ(makeProblem(&p, canonical, nullptr), VKATTN_OK);
    EXPECT_EQ(canonical.left, 3);
    EXPECT_EQ(canonical.right, 0);
    p.flags = VKATTN_WINDOW, p.windowLeft = -1, p.windowRight = 2147483647;
    ASSERT_EQ(makeProblem(&p, canonical, nullptr), VKATTN_OK);
    EXPECT_EQ(canonical.left, openWindow);
    EXPECT_EQ(canonical.right, openWindow);
}
