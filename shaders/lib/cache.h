// Layouts of append and merge (cache/), shared by shaders and planner; part of interop.h. X and Y have the slots of
// the other operations.
//
// form of append, beside formStarts
VKATTN_CONST formRing = 32u;
VKATTN_CONST formPages = 64u; // the cache is a pool of pages
VKATTN_CONST slotAppendStarts = 2u;
VKATTN_CONST slotPageTable = 3u;
#if defined(__cplusplus) || defined(VKATTN_STAGE_APPEND)
VKATTN_PUSH(AppendPush) {
    VKATTN_TOKENS
    uint allRows;                // of all dispatches
    uint pageTokens, tablePages; // of a page, and of a batch entry's row of the table
    uint tableBase;
    uint pageFirst, pages; // of the pool, which this dispatch binds; bases are those of the first
};
#endif

// form of merge
VKATTN_CONST formLse = 1u; // the log-sum-exp is stored
VKATTN_CONST slotPartLse = 2u;
VKATTN_CONST slotMergedLse = 3u;
VKATTN_CONST mostParts = 256u;
#if defined(__cplusplus) || defined(VKATTN_STAGE_MERGE)
VKATTN_PUSH(MergePush) {
    uint groups, dims, parts;
    uint xBase, yBase, partLseBase, lseBase;
    uint xPart, partLsePart; // from one part to the next
    Strides xStrides, yStrides, partLseStrides, lseStrides;
};
#endif
