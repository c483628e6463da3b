// Push constants of operations/, shared by shaders and planner; part of interop.h. A dispatch computes
// a box of the operation: batch entries, groups, rows and columns. Workgroup z is batch * groups + group within the box. Bases are the elements of the
// box's first batch entry, group, row and column.
struct Strides {
    uint batch, group, row, column;
};
#if defined(__cplusplus) || defined(VKATTN_STAGE_PROJECTION)
VKATTN_PUSH(ProjectionPush) {
    uint groups, rows, columns, inner;
    uint xBase, wBase, yBase, firstBase, secondBase;
    uint lengthsAt, innerFirst;           // from firstBase on; the first inner dim of this dispatch
    Strides xStrides, wStrides, yStrides; // of W: the row is an output, the column an input
    Strides firstStrides, secondStrides;  // the addends
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ADD)
VKATTN_PUSH(AddPush) {
    uint groups, columns;
    uint xBase, yBase, addendBase;
    Strides xStrides, yStrides, addendStrides;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ANGLES)
VKATTN_PUSH(AnglesPush) {
    uint rows, rowFirst, start; // as of the tokens
    uint pairs, positions;
    uint cosBase, cosRow, cosColumn;
    uint sinBase, sinRow, sinColumn;
    uint whereBase, whereBatch;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_NORM)
VKATTN_PUSH(NormPush) {
    uint groups, rows, dims;
    float epsilon;
    uint xBase, yBase, residualBase, sumBase, gammaBase, betaBase;
    uint gammaStride, betaStride;
    Strides xStrides, yStrides, residualStrides, sumStrides;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_NORM_GRADIENT)
VKATTN_PUSH(NormGradientPush) {
    uint groups, rows, dims;
    float epsilon;
    uint xBase, dXBase, dYBase;
    uint gammaBase, factsBase; // of the workspace
    Strides xStrides, dXStrides, dYStrides;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_NORM_GRADIENT_COLUMNS)
VKATTN_PUSH(NormGradientColumnsPush) {
    uint groups, rows, dims;
    uint allRows, blockRows; // rows of all batch entries and groups of the box, and of a block
    uint xBase, dYBase, factsBase, partialBase;
    Strides xStrides, dYStrides;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_NORM_GRADIENT_SUM)
VKATTN_PUSH(NormGradientSumPush) {
    uint dims, blocks;
    uint firstBox; // 1: nothing is summed up yet
    uint partialBase, totalsBase;
    uint dGammaBase, dGammaStride, dBetaBase, dBetaStride;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ROTARY) || defined(VKATTN_STAGE_APPEND)
// The tokens of rotary and append.
#define VKATTN_TOKENS                                                                                                                      \
    uint groups, rows, dims;                                                                                                               \
    uint rowFirst;  /* of this dispatch */                                                                                                 \
    uint start;     /* of the tokens: position, and where they are appended */                                                             \
    uint cacheRows; /* of Y */                                                                                                             \
    uint startsBase;                                                                                                                       \
    uint xBase, yBase; /* of Y: row 0 where tokens are appended */                                                                         \
    Strides xStrides, yStrides;
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ROTARY)
VKATTN_PUSH(RotaryPush) {
    VKATTN_TOKENS
    uint pairs;     // that are rotated
    uint positions; // rows of the tables
    uint cosBase, cosRow, cosColumn;
    uint sinBase, sinRow, sinColumn;
    uint positionsBase, positionsBatch;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ADVANCE)
VKATTN_PUSH(AdvancePush) {
    uint words; // of this dispatch
    uint by, limit;
    uint xBase, xStride, yBase, yStride;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_MEAN)
VKATTN_PUSH(MeanPush) {
    uint groups, columns;
    float share; // 1 / groups
    uint xBase, yBase;
    Strides xStrides, yStrides;
};
#endif
VKATTN_CONST hadamardPiece = 1024u; // dims of shared memory, and of the largest block
#if defined(__cplusplus) || defined(VKATTN_STAGE_HADAMARD)
VKATTN_PUSH(HadamardPush) {
    uint groups, dims; // groups: of the box
    uint block, pieceDims;
    float factor; // the root of 1 / block
    uint xBase, yBase;
    Strides xStrides, yStrides;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_KEEP)
VKATTN_PUSH(KeepPush) {
    uint groups, words;       // of the box, as below
    uint rowFirst, wordFirst; // of the box
    uint planeFirst, planesOfBatch;
    uint columns;   // of a row of the whole
    uint threshold; // a random word below it drops
    uint allBits;   // 0 where everything is dropped, which no threshold of 32 bits says
    uint seedLow, seedHigh, offset;
    uint yBase;
    Strides yStrides;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_DROP)
VKATTN_PUSH(DropPush) {
    uint groups, columns;                     // groups: of the box
    uint rowFirst, planeFirst, planesOfBatch; // of the box in what random numbers count
    uint drops;                               // 0: of probability 0
    uint lastDropped;                         // a random word that is at most this drops: the threshold, less 1
    float factor;                             // of what is kept
    uint seedLow, seedHigh, offset;
    uint xBase, yBase, residualBase;
    Strides xStrides, yStrides, residualStrides;
};
#endif
