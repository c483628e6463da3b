// Layouts of setup/prior.comp, shared by shaders and planner; part of interop.h.
//
// form: what the dispatch makes of attention over other keys.
VKATTN_CONST formPriorPart = 0u;   // the first of the partial results that flash/combine.comp merges
VKATTN_CONST formPriorColumn = 1u; // staged: with the sink, the column behind the scores; alone, the one before that
VKATTN_CONST formPriorSums = 2u;   // staged: behind the softmax, what the sums of values begin with
VKATTN_CONST formPriorSinks = 4u;  // beside formPriorColumn: there are sinks
VKATTN_CONST priorColumns = 2u;
#if defined(__cplusplus) || defined(VKATTN_STAGE_PRIOR)
VKATTN_PUSH(PriorPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint valueDim;
    uint packed, parts; // of flash/combine.comp
    uint sumsBase;      // workspace element of the first sum
    uint outBase, outBatch, outHead, outToken, outDim;
    uint lseBase, lseBatch, lseHead, lseToken;
    uint sinksBase; // of the chunk's first head
};
#endif
