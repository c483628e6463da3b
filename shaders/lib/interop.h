// Layouts shared by shaders and planner: push constants, specialization constant ids, bindings, bit patterns. Compiled as GLSL and as C++.
// Every member is one 32-bit word, so that both languages agree on the layout. Strides and bases count elements of the operand and are
// used modulo 2^32: the binding is cut so that every index that is reached lies inside it.
#ifndef VKATTN_INTEROP_H_
#define VKATTN_INTEROP_H_

#ifdef __cplusplus
#include <cstdint>
namespace vkattn::interop {
using uint = uint32_t;
#define VKATTN_PUSH(name) struct name
#define VKATTN_CONST constexpr uint
#else
#define VKATTN_PUSH(name) layout(push_constant, std430) uniform name
#define VKATTN_CONST const uint
#endif

// A score or weight of a pair that is hidden: a NaN that no arithmetic here produces (stored NaNs are made canonical), told apart by an
// integer compare only, so that no finite value acts as a mask.
VKATTN_CONST hiddenBits = 0xffffffffu;
VKATTN_CONST canonicalNanBits = 0x7fc00000u;
VKATTN_CONST minusInfinityBits = 0xff800000u;

// Types of tensor elements, numbered as in vkattn_dtype.
VKATTN_CONST elementF32 = 0u;
VKATTN_CONST elementF16 = 1u;
VKATTN_CONST elementBf16 = 2u;

// The table of ragged batches that sequences.comp writes: for each sequence the first query, the number of queries, the first key, the
// number of keys; all of it inside the tensors, whatever the arrays hold.
VKATTN_CONST sequenceWords = 4u;

// Position.flags
VKATTN_CONST flagTopLeft = 1u;
VKATTN_CONST flagKeyLengths = 2u;
VKATTN_CONST flagLse = 4u;         // softmax: write the log-sum-exp
VKATTN_CONST flagWeights = 8u;     // softmax: write the weights
VKATTN_CONST flagFirstKeys = 16u;  // values: the first chunk of keys, nothing accumulated yet
VKATTN_CONST flagLastKeys = 32u;   // values: the last chunk of keys, write the output
VKATTN_CONST flagRagged = 64u;     // lengths[] is the table of sequences
VKATTN_CONST flagSinks = 128u;     // softmax: the last column of each row is the head's sink
VKATTN_CONST flagFixedOrder = 256u; // sum in an order that does not depend on where weights lie in memory, or which rows share a workgroup
VKATTN_CONST flagPartial = 512u;    // flash: partial results to the workspace

// Specialization constants of flash
VKATTN_CONST sourceDirect = 0u;   // each lane loads the K and V it multiplies
VKATTN_CONST sourceShared = 1u;   // tiles of K and V in shared memory
VKATTN_CONST sourceShuffled = 2u; // lanes load neighbouring dims, subgroup shuffles spread them
VKATTN_CONST sourceMatrices = 3u; // matrices.comp: tiles of K and V in shared memory, for matrix units
VKATTN_CONST dimsApart = 0u;      // of K or V in memory, anyhow
VKATTN_CONST dimsAdjacent = 1u;   // each dim beside the one before it
VKATTN_CONST dimsInWords = 2u;    // and every run that a lane loads begins and ends at a 32-bit word
VKATTN_CONST termSoftcap = 1u;
VKATTN_CONST termAlibi = 2u;
VKATTN_CONST termBias = 4u;
VKATTN_CONST termMask = 8u;
VKATTN_CONST termBitMask = 16u;
VKATTN_CONST termDocuments = 32u;
VKATTN_CONST edgeDims = 16u; // flash: dims of a lane whose loads of q and stores of the output are unrolled
VKATTN_CONST partialWords = 3u; // before the value dims of a partial result: maximum, sum of weights, worst score

// What decides which keys a query may see by position, in every stage that asks (attention/sequence.glsl).
#define VKATTN_POSITION                                                                                                                    \
    uint flags;                                                                                                                            \
    uint queryFirst;   /* of this chunk */                                                                                                 \
    uint queryTokens;  /* extent; ragged: a sequence may have less */                                                                                                \
    uint keyTokens;    /* extent; a batch entry may have less */                                                                           \
    int left;                                                                                                                              \
    int right;                                                                                                                             \
    uint lengthsBase;

// The piece of the problem that a dispatch computes. Workgroup z is batch * heads + head within the chunk.
#define VKATTN_CHUNK                                                                                                                       \
    uint heads;    /* query heads in the chunk */                                                                                          \
    uint queries;  /* query rows in the chunk */                                                                                           \
    uint keyFirst; /* first key of this dispatch */                                                                                        \
    uint keys;     /* keys of this dispatch */                                                                                             \
    uint rowPitch; /* workspace elements from one row to the next */

#if defined(__cplusplus) || defined(VKATTN_STAGE_SCORES)
VKATTN_PUSH(ScoresPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint groupSize; // query heads per key head
    uint headPhase; // first head of the chunk modulo groupSize
    uint headDim;
    float scale;
    float softcap;
    uint qBase, qBatch, qHead, qToken, qDim;
    uint kBase, kBatch, kHead, kToken, kDim;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_BIAS) || defined(VKATTN_STAGE_MASK) || defined(VKATTN_STAGE_BIT_MASK)
VKATTN_PUSH(OverlayPush) {
    VKATTN_CHUNK
    uint base, batchStride, headStride, queryStride, keyStride;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ALIBI)
VKATTN_PUSH(AlibiPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint base; // of the chunk's first head
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_DOCUMENTS)
VKATTN_PUSH(DocumentsPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint idsQBase, idsQBatch;
    uint idsKBase, idsKBatch;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_SINKS)
VKATTN_PUSH(SinksPush) {
    VKATTN_CHUNK
    uint base; // of the chunk's first head
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_SEQUENCES)
VKATTN_PUSH(SequencesPush) {
    uint sequences;
    uint totalQueries, totalKeys; // extents of the tensors
    uint maxQueries, maxKeys;     // of one sequence
    uint cuQBase, cuKBase;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_SOFTMAX)
VKATTN_PUSH(SoftmaxPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint lseBase, lseBatch, lseHead, lseToken;
    uint wBase, wBatch, wHead, wToken, wKey;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_VALUES)
VKATTN_PUSH(ValuesPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint groupSize;
    uint headPhase;
    uint valueDim;
    uint sumsBase; // workspace element where partial outputs wait between chunks of keys
    uint vBase, vBatch, vHead, vToken, vDim;
    uint oBase, oBatch, oHead, oToken, oDim;
};
#endif
// Of flash, in the workspace; the base members are set when the dispatch is recorded.
struct FlashOptions {
    uint qDim, kDim, vDim, oDim;
    uint softcap;  // float bits
    uint biasType; // elementF32, ...
    uint lseBase, lseBatch, lseHead, lseToken;
    uint biasBase, biasBatch, biasHead, biasQuery, biasKey; // seen from key 0
    uint maskBase, maskBatch, maskHead, maskQuery, maskKey; // of the mask or the bit mask
    uint maskPhase; // bit mask: bits from the start of the first bound word to key keyFirst
    uint idsQBase, idsQBatch;
    uint idsKBase, idsKBatch;
    uint sinksBase, slopesBase;
};
#if defined(__cplusplus) || defined(VKATTN_STAGE_OPTIONS)
VKATTN_PUSH(OptionsPush) {
    FlashOptions given;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_FLASH)
VKATTN_PUSH(FlashPush) {
    VKATTN_POSITION
    uint queries;         // query rows in the chunk
    uint keyFirst;        // first key of this dispatch
    uint keys;            // keys of this dispatch
    uint splitKeys;       // keys of a split, a multiple of the step
    uint headsAndPacked;  // query heads in the chunk | query heads packed as rows << 16
    uint groupAndPhase;   // query heads per key head | first head of the chunk modulo that << 16
    uint partsAndFirst;   // partial results of a row | the first of this dispatch << 16
    uint dims;            // head dim | value dim << 16
    float scale;
    uint qBase, qBatch, qHead, qToken;
    uint kBase, kBatch, kHead, kToken;
    uint vBase, vBatch, vHead, vToken;
    uint oBase, oBatch, oHead, oToken;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_COMBINE)
VKATTN_PUSH(CombinePush) {
    VKATTN_POSITION
    uint heads, queries;
    uint keyFirst, keys; // attention/sequence.glsl
    uint packed;         // query heads packed as rows
    uint parts;          // partial results of a row
    uint valueDim;
    uint oBase, oBatch, oHead, oToken, oDim;
    uint lseBase, lseBatch, lseHead, lseToken;
    uint sinksBase;
};
#endif

#ifdef __cplusplus
} // namespace vkattn::interop
#endif
#endif
