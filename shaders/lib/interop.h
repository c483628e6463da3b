// Layouts shared by shaders and planner: push constants, specialization constant ids, bindings, bit
// patterns. Compiled as GLSL and as C++. Every member is one 32-bit word, so that both languages
// agree on the layout. Strides and bases count elements of the operand and are used modulo 2^32:
// the binding is cut so that every index that is reached lies inside it.
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

#include "lib/table.h"

// A score or weight of a pair that is hidden: a NaN that no arithmetic here produces (stored NaNs
// are made canonical), told apart by an integer compare only, so that no finite value acts as a
// mask.
VKATTN_CONST hiddenBits = 0xffffffffu;
VKATTN_CONST canonicalNanBits = 0x7fc00000u;
VKATTN_CONST minusInfinityBits = 0xff800000u;

// Types of tensor elements, numbered as in vkattn_dtype.
VKATTN_CONST elementF32 = 0u;
VKATTN_CONST elementF16 = 1u;
VKATTN_CONST elementBf16 = 2u;
// Of K and V alone (lib/small_types.glsl); those with scales last.
VKATTN_CONST elementFp8E4M3 = 5u;
VKATTN_CONST elementFp8E5M2 = 6u;
VKATTN_CONST elementQ8 = 7u;
VKATTN_CONST elementQ4 = 8u;
VKATTN_CONST elementInt8 = 9u;

// The terms that change the score of a pair or hide the pair (attention/pair.glsl), in the order of
// the formula.
VKATTN_CONST termSoftcap = 1u;
VKATTN_CONST termBias = 2u; // a bias of minus infinity hides
VKATTN_CONST termAlibi = 4u;
VKATTN_CONST termMask = 8u;
VKATTN_CONST termBitMask = 16u;
VKATTN_CONST termDocuments = 32u;
// Dropout changes no score and hides no pair: a dropped pair has weight 0 in the second product alone
// (attention/dropout.glsl).
VKATTN_CONST termDropout = 64u;
// Rules (attention/rule.glsl). termDilated and termPlanes go with the term before them; termPrefix is a
// matter of reach, as is the outer axis of a grid (attention/reach.glsl).
VKATTN_CONST termLocal = 128u;   // a window that takes more than a range of keys: dilated, or with global tokens
VKATTN_CONST termDilated = 256u; // keys of the window are not neighbours
VKATTN_CONST termGrid = 512u;
VKATTN_CONST termPlanes = 1024u; // the grid has more than one plane
VKATTN_CONST termBlocks = 2048u;
VKATTN_CONST termPrefix = 4096u;
// Hooks of a program (attention/program.glsl), which only modules of the program have.
VKATTN_CONST termScoreHook = 8192u;
VKATTN_CONST termVisibleHook = 16384u;
// Changes no score and hides no pair, as dropout.
VKATTN_CONST termProbabilityHook = 32768u;
// Weights are what the program makes of scores, and no shares of a sum.
VKATTN_CONST termRowHook = 65536u;
// Keys and values lie in pages (attention/key_value.glsl), some of which may be absent. Where any is no step is free of
// tests, which is a matter of reach: the term is none of termsThatHide.
VKATTN_CONST termPages = 131072u;
VKATTN_CONST termsOfHooks = termScoreHook | termVisibleHook | termProbabilityHook | termRowHook;
VKATTN_CONST termsOfRules = termLocal | termDilated | termGrid | termPlanes | termBlocks;
VKATTN_CONST termsOfReach = termGrid | termPrefix;
VKATTN_CONST termsThatHide = termBias | termMask | termBitMask | termDocuments | termLocal | termGrid | termBlocks | termVisibleHook;
// Of these, what may leave nothing of a step that rules visit.
VKATTN_CONST termsThatEmptySteps = termBias | termMask | termBitMask | termDocuments | termVisibleHook | termPages;
VKATTN_CONST termsThatOnlyHide =
    termMask | termBitMask | termDocuments | termsOfRules | termPrefix | termVisibleHook | termPages;
// Pieces of 16 bytes in which flash/matrices2.comp keeps the facts of a row in shared memory
// (attention/pair.glsl).
VKATTN_CONST rowFactPieces = 1u;

// Specialization constants that mean the same in every shader: 0 is the size of the workgroup,
// those of a shader's own begin at firstOwnConstant. The core folds these into the SPIR-V before a
// driver sees it (conceptConstants, a bit for each).
VKATTN_CONST constantKvFormat = 1u;
VKATTN_CONST constantPairTerms = 2u;
VKATTN_CONST constantElementTypes = 3u;
VKATTN_CONST constantForm = 4u;
VKATTN_CONST firstOwnConstant = 8u;
VKATTN_CONST conceptConstants = 1u << constantKvFormat | 1u << constantPairTerms | 1u << constantElementTypes | 1u << constantForm;
// kvFormat: the element type of K in the lowest 4 bits, that of V above, then how dims lie.
VKATTN_CONST formatVType = 4u;
VKATTN_CONST formatDimOrder = 8u;
// flash/lanes.comp: V is the first dims of K's rows, in K's memory
VKATTN_CONST formatValuesInKeys = 10u;
// flash/lanes.comp: halves of K and V are unpacked by unpackHalf2x16, which keeps denormals here
VKATTN_CONST formatExactHalves = 11u;
VKATTN_CONST dimsApart = 0u;    // of K or V in memory, anyhow
VKATTN_CONST dimsAdjacent = 1u; // each dim beside the one before it
VKATTN_CONST dimsInWords = 2u;  // and every run that a lane loads begins and ends at a 32-bit word; never of blocks
// elementTypes: 4 bits each, that of Q lowest.
VKATTN_CONST typesOut = 4u;
// staged/pairs.comp; the flash kernels find it in the environment (flagsBiasType)
VKATTN_CONST typesBias = 8u;
VKATTN_CONST typesWeights = 12u;
// the passes of gradient/: dOut is at typesOut
VKATTN_CONST typesHeadGradient = 16u;
VKATTN_CONST typesValueGradient = 20u;
// elementTypes of operations/: X lowest, then Y at typesOut.
VKATTN_CONST typesW = 8u;
VKATTN_CONST typesFirstAddend = 12u;
VKATTN_CONST typesSecondAddend = 16u;
VKATTN_CONST typesResidual = 8u;
VKATTN_CONST typesGamma = 12u;
VKATTN_CONST typesBeta = 16u;
VKATTN_CONST typesSum = 20u;
VKATTN_CONST typesDY = 8u;
// form: how the shader goes about its work.
VKATTN_CONST formExactDims = 1u;   // flash/lanes.comp: lanes cover head and value dim exactly
// flash/lanes.comp: loops at both ends not unrolled: arrays may then live in memory
VKATTN_CONST formRolledEdges = 2u;
// flash/tiles.glsl: dims of q, k and v are even and neighbours, rows begin at words
VKATTN_CONST formWholeWords = 4u;
// flash/tiles.glsl: a subgroup is one vector of a CPU: its lanes are never apart
VKATTN_CONST formLockstep = 8u;
// flash/lanes.comp: bits from this one on: sourceDirect, sourceShared, sourceShuffled
VKATTN_CONST formSource = 4u;
// flash/lanes.comp: the keys of a stretch, in whole steps, lie in one row of the grid
VKATTN_CONST formBoxRuns = 64u;
// Wherever workgroups have tiles (attention/turns.glsl): from both ends in turn.
VKATTN_CONST formInTurn = 0x80000000u;

// staged/values.comp: sums are multiplied by ValuesPush::factor before they are stored
VKATTN_CONST formScaled = 1u;

VKATTN_CONST formFinalScores = 1u; // write_scores.comp: hidden scores are -inf; otherwise none is hidden

// form of gradient/
VKATTN_CONST formDots = 1u;        // row_facts.comp: D_i; otherwise the statistics
VKATTN_CONST formDLse = 2u;        // row_facts.comp: dLse is there
VKATTN_CONST formDWeights = 1u;    // pair_deltas.comp
VKATTN_CONST formDropped = 2u;     // pair_deltas.comp: dWeights are those after dropout
VKATTN_CONST formDrops = 4u;       // pair_deltas.comp: there is dropout
VKATTN_CONST formDropsAll = 8u;    // likewise, of probability 1
VKATTN_CONST formDeltas = 16u;     // pair_deltas.comp: more than dV is asked for
VKATTN_CONST formGatherSinks = 32u; // pair_deltas.comp: the sinks are there
VKATTN_CONST formCarried = 1u;     // columns.comp, bias_sums.comp: sums wait in the workspace between chunks

// What the backward pass knows of a row before it has seen the row's pairs (gradient/row_facts.comp):
// maximum and inverse sum of the softmax, delta = D_i - dLse_i, of which P dWeights is left out, and
// dLse_i, which is all that a row that sees nothing adds to the gradient of its sink. A row without
// exponents has an inverse sum of 0; a row that is NaN has NaN for both.
VKATTN_CONST rowFactWords = 4u;
VKATTN_CONST factMaximum = 0u;
VKATTN_CONST factInverseSum = 1u;
VKATTN_CONST factDelta = 2u;
VKATTN_CONST factDLse = 3u;
// What a row adds to sums over pairs: of dS, and to dSlopes, dSinks, dScale and dSoftcap.
VKATTN_CONST rowSumWords = 5u;
VKATTN_CONST rowSumDeltas = 0u;
VKATTN_CONST rowSumSlopes = 1u;
VKATTN_CONST rowSumSinks = 2u;
VKATTN_CONST rowSumScale = 3u;
VKATTN_CONST rowSumSoftcap = 4u;
// form of gradient/rows.comp and keys.comp, beside formExactDims, formRolledEdges and formSource, and of
// rows_matrices.comp and keys_matrices.comp
VKATTN_CONST formRowSums = 4u;   // rows.comp: what rows add to dSlopes, dSinks, dScale and dSoftcap
VKATTN_CONST formNonfinite = 8u; // the word of NONFINITE is bound
VKATTN_CONST formHeadGradient = 64u;   // dQ or dK is asked for; beyond formSource
VKATTN_CONST formValueGradient = 128u; // dV is asked for
// gradient/matrices.glsl: as formWholeWords, of dOut too, and formLockstep
VKATTN_CONST formMatrixWords = 256u;
VKATTN_CONST formMatrixLockstep = 512u;
VKATTN_CONST formMatrixOwnedShared = 1024u; // owned operands lie in shared memory, not in matrices

// What the passes of statistics/ leave of a row in the workspace: the maximum of its scores and the inverse
// of the sum of exponents; between chunks of keys the sum itself. A row without exponents has 0 for the
// second, a row that is NaN has NaN. Before the rows of a head lies the inverse of the number of rows
// that see a key.
VKATTN_CONST rowScaleWords = 2u;
// Between chunks of keys, in the place of the sum: keys are visible, all with -infinity. Not -1: Mesa 22
// makes of "seen ? -1 : 0" a product with -1, whose 0 is -0.
VKATTN_CONST sumOfMinusInfinity = 0xff000000u;
// form of statistics/, beside formExactDims, formRolledEdges and formSource: what a dispatch over rows
// computes.
VKATTN_CONST formStatistics = 64u; // all columns but the density
VKATTN_CONST formDensity = 128u;   // the density, with what other dispatches have found; nothing else
VKATTN_CONST formDensityOfTop = 256u; // the density too, of the largest weights

// statistics/ without subgroups: dims of a round.
VKATTN_CONST plainDims = 16u;
// Columns of the statistics, numbered as in vkattn_statistic.
VKATTN_CONST columnEntropy = 0u;
VKATTN_CONST columnLargest = 1u;
VKATTN_CONST columnLargestKey = 2u;
VKATTN_CONST columnDistance = 3u;
VKATTN_CONST columnDiagonal = 4u;
VKATTN_CONST columnFirst = 5u;
VKATTN_CONST columnSquares = 6u;
VKATTN_CONST columnVisible = 7u;
VKATTN_CONST columnLocality = 8u;
VKATTN_CONST columnSignedDistance = 9u;
VKATTN_CONST columnSquaredDistance = 10u;
VKATTN_CONST columnDensity = 11u; // between chunks of keys: how many neighbours are visible
VKATTN_CONST statisticColumns = 12u;

// form of operations/: what takes part.
VKATTN_CONST formFirstAddend = 1u; // projection: the bias or the residual; add: there is an addend
VKATTN_CONST formWholeInner = 2u;    // projection: the inner dim is a multiple of the block
VKATTN_CONST formInnerWords = 8u;    // projection on matrix units: inner dims of X and W fill words
VKATTN_CONST formOneVector = 16u;    // likewise: a subgroup is one vector of a CPU
VKATTN_CONST formAdjacentInner = 4u; // projection: inner dims are neighbours in X and W
VKATTN_CONST formLengths = 32u;      // projection: batch entries have lengths of the inner dim, behind the first addend's base
VKATTN_CONST formResidual = 1u; // norm and drop
VKATTN_CONST formGamma = 2u;
VKATTN_CONST formBeta = 4u;
VKATTN_CONST formSum = 8u;
VKATTN_CONST formRms = 16u;
VKATTN_CONST formDX = 32u; // the gradient of a norm: dX is stored
VKATTN_CONST formFacts = 64u; // likewise: the moments of rows go to the workspace
VKATTN_CONST formInterleaved = 1u; // rotary
VKATTN_CONST formInverse = 2u;
VKATTN_CONST formPositions = 4u;
VKATTN_CONST formStarts = 8u;  // rotary and append
VKATTN_CONST formAppend = 16u; // rotary: tokens go to start + token

// Bindings of operations/.
VKATTN_CONST slotX = 0u;
VKATTN_CONST slotY = 1u;
VKATTN_CONST slotW = 2u;           // projection
VKATTN_CONST slotFirstAddend = 3u; // projection
VKATTN_CONST slotSecondAddend = 4u;
VKATTN_CONST slotResidual = 2u; // norm and drop
VKATTN_CONST slotGamma = 3u;
VKATTN_CONST slotBeta = 4u;
VKATTN_CONST slotSum = 5u;
VKATTN_CONST slotDY = 2u; // the gradient of a norm: dX has slotY
VKATTN_CONST slotNormWorkspace = 3u;
VKATTN_CONST slotPartialSums = 1u; // norm_gradient_columns
VKATTN_CONST slotFacts = 3u;
VKATTN_CONST slotDGamma = 0u; // norm_gradient_sum
VKATTN_CONST slotDBeta = 1u;
VKATTN_CONST slotBlocks = 2u;
VKATTN_CONST slotTotals = 3u;
VKATTN_CONST slotCos = 2u; // rotary
VKATTN_CONST slotSin = 3u;
VKATTN_CONST slotStarts = 4u; // rotary
VKATTN_CONST slotPositions = 5u;
// Bindings of operations/ where a device has only four buffers: what the full form binds is gathered
// in the workspace first.
VKATTN_CONST slotAddend = 2u;       // add
VKATTN_CONST slotParameters = 3u;   // norm: gamma, then beta, as f32
VKATTN_CONST slotAngles = 2u;       // rotary: cosines and sines of each token
VKATTN_CONST slotPlainStarts = 3u;  // rotary
VKATTN_CONST slotAnglesOut = 1u;    // angles
VKATTN_CONST slotAnglesWhere = 0u;  // angles: positions or starts

// Bindings. Stages of the staged kernel have four; what the second and the third are depends on the
// stage (attention/operands.glsl).
VKATTN_CONST slotWorkspace = 0u;
VKATTN_CONST slotFirst = 1u;
VKATTN_CONST slotSecond = 2u;
VKATTN_CONST slotStagedLengths = 3u;
// Bindings of the flash kernels. flash_plain has the first four.
VKATTN_CONST slotQ = 0u;
VKATTN_CONST slotPartials = 0u; // flash/combine.comp
VKATTN_CONST slotK = 1u;
VKATTN_CONST slotV = 2u;
VKATTN_CONST slotOut = 3u;
VKATTN_CONST slotEnvironment = 4u;
VKATTN_CONST slotLengths = 5u;
VKATTN_CONST slotLse = 6u;
VKATTN_CONST slotBias = 7u;
VKATTN_CONST slotMask = 8u; // of bytes or of bits
VKATTN_CONST slotIdsQ = 9u;
VKATTN_CONST slotIdsK = 10u;
// Bindings of the passes of gradient/: those of the flash kernels, but what the
// backward pass has in place of the output and the log-sum-exp, and three more.
VKATTN_CONST slotDOut = 3u;
VKATTN_CONST slotRowFacts = 6u;
VKATTN_CONST slotHeadGradient = 11u;  // dQ or dK
VKATTN_CONST slotValueGradient = 12u; // dV
VKATTN_CONST slotNonfinite = 13u;
// Bindings of the passes of statistics/, likewise.
VKATTN_CONST slotTopWeights = 2u;
VKATTN_CONST slotTopKeys = 3u;
VKATTN_CONST slotRowScales = 6u;
VKATTN_CONST slotStatistics = 11u; // the columns, or what keys receive

// Bindings of setup/visible_blocks.comp: those of the flash kernels, but what is written in place of tokens.
VKATTN_CONST slotBlockCounts = 0u;
VKATTN_CONST slotBlockIndices = 1u;
VKATTN_CONST slotFullBlockCounts = 2u;
VKATTN_CONST slotFullBlockIndices = 3u;

// Position.flags
VKATTN_CONST flagTopLeft = 1u;
VKATTN_CONST flagKeyLengths = 2u;
VKATTN_CONST flagLse = 4u;         // write the log-sum-exp, or the row statistics in its place
VKATTN_CONST flagWeights = 8u;     // softmax: write the weights
VKATTN_CONST flagFirstKeys = 16u;  // values: the first chunk of keys, nothing accumulated yet
VKATTN_CONST flagLastKeys = 32u;   // values: the last chunk of keys, write the output
VKATTN_CONST flagRagged = 64u;     // tokens of all sequences lie in one tensor
VKATTN_CONST flagSinks = 128u;     // softmax: the last column of each row is the head's sink
// Sum in an order that does not depend on where weights lie in memory, or which rows share a
// workgroup.
VKATTN_CONST flagFixedOrder = 256u;
VKATTN_CONST flagPartial = 512u;    // flash: partial results to the workspace
VKATTN_CONST flagRowStatistics = 1024u; // with flagLse: maximum and sum of a row, not the log-sum-exp
// gradient/: of sums that go on from chunk to chunk, the first and the last chunk
VKATTN_CONST flagFirstRows = 2048u;
VKATTN_CONST flagLastRows = 4096u;
// nonfinite.comp: tokens are those of sequences
VKATTN_CONST flagTokensOfRows = 8192u;
VKATTN_CONST flagTokensOfKeys = 16384u;
VKATTN_CONST flagWeightsDropped = 32768u; // softmax: the weights are those after dropout
// Environment: four bits from this one on are the element type of the bias.
VKATTN_CONST flagsBiasType = 16u;
VKATTN_CONST flagTable = 1u << 20; // lengths[] is the table
VKATTN_CONST flagOffsets = 1u << 21; // which says where queries stand
VKATTN_CONST flagGoesOn = 1u << 22;  // softmax, with flagSinks: the column receives the log-sum-exp (setup/prior.comp)

// Where the flash kernels have K and V while they multiply
VKATTN_CONST sourceDirect = 0u;   // each lane loads the K and V it multiplies
VKATTN_CONST sourceShared = 1u;   // tiles of K and V in shared memory
VKATTN_CONST sourceShuffled = 2u; // lanes load neighbouring dims, subgroup shuffles spread them
// matrices.comp: tiles of K and V in shared memory, for matrix units
VKATTN_CONST sourceMatrices = 3u;
// Flash: dims of a lane whose loads of q and stores of the output are unrolled together. Of f32,
// lanes with few dims have all of them unrolled: Mesa 22 compiles head dim 64 in 3 s so, and runs it
// 13% faster than in blocks. Of 16-bit types it would compile 5 s and run no faster.
VKATTN_CONST edgeDims = 16u;
VKATTN_CONST wholeEdgeDims = 64u;
// Before the value dims of a partial result: maximum, sum of weights, worst score.
VKATTN_CONST partialWords = 3u;

// What decides which keys a query may see by position, in every stage that asks
// (attention/sequence.glsl).
#define VKATTN_POSITION                                                                                                                    \
    uint flags;                                                                                                                            \
    uint queryFirst;   /* of this chunk */                                                                                                 \
    uint queryTokens;  /* extent; ragged: a sequence may have less */                                                                                                \
    uint keyTokens;    /* extent; a batch entry may have less */                                                                           \
    int left;                                                                                                                              \
    int right;                                                                                                                             \
    uint lengthsBase;

// The piece of the problem that a dispatch computes. Workgroup z is batch * heads + head within the
// chunk.
#define VKATTN_CHUNK                                                                                                                       \
    uint heads;    /* query heads in the chunk */                                                                                          \
    uint queries;  /* query rows in the chunk */                                                                                           \
    uint keyFirst; /* first key of this dispatch */                                                                                        \
    uint keys;     /* keys of this dispatch */                                                                                             \
    uint rowPitch; /* workspace elements from one row to the next */

// How an operand of pairs lies. Its base is the element of the chunk's first batch entry, head and
// query, and of key keyFirst; of a bit mask the word of that key.
struct PairStrides {
    uint batch, head, query, key;
};

// What dropout draws with, as problem.h has it: the same for all of a plan.
#define VKATTN_DROPOUT                                                                                                                     \
    uint dropoutSeedLow, dropoutSeedHigh, dropoutOffset;                                                                                   \
    uint dropoutLast;    /* a pair is dropped where its word is at most this: the threshold, less 1 */                                    \
    uint dropoutHeads;   /* of the problem */                                                                                              \
    float dropoutFactor; /* of kept weights */

#if defined(__cplusplus) || defined(VKATTN_STAGE_SCORES)
VKATTN_PUSH(ScoresPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint groupSize; // query heads per key head
    uint headPhase; // first head of the chunk modulo groupSize
    uint headFirst;
    uint headDim;
    float scale;
    float softcap;
    uint qBase, qBatch, qHead, qToken, qDim;
    uint kBase, kBatch, kHead, kToken, kDim;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_PAIRS)
VKATTN_PUSH(PairsPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint firstBase, secondBase; // of the operands of the dispatch's term
    PairStrides firstStrides, secondStrides;
    uint headFirst; // of this chunk
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_SINKS)
VKATTN_PUSH(SinksPush) {
    VKATTN_CHUNK
    uint base; // of the chunk's first head
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_SOFTMAX)
VKATTN_PUSH(SoftmaxPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint lseBase, lseBatch, lseHead, lseToken, lseEntry;
    uint wBase, wBatch, wHead, wToken, wKey;
    uint planeFirst; // attention/dropout.glsl
    VKATTN_DROPOUT
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_VALUES)
VKATTN_PUSH(ValuesPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint groupSize;
    uint headPhase;
    uint headFirst;
    uint valueDim;
    uint sumsBase; // workspace element where partial outputs wait between chunks of keys
    uint vBase, vBatch, vHead, vToken, vDim;
    uint oBase, oBatch, oHead, oToken, oDim;
    float factor; // formScaled
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_WRITE_SCORES)
VKATTN_PUSH(WriteScoresPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint oBase, oBatch, oHead, oQuery, oKey;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ROW_FACTS)
// Either tensor of the form: dOut and out, or statistics and dLse.
VKATTN_PUSH(RowFactsPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint dims;
    uint factsBase; // workspace word of the chunk's first row
    uint firstBase, firstBatch, firstHead, firstToken, firstDim;
    uint secondBase, secondBatch, secondHead, secondToken, secondDim;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_PAIR_DELTAS)
VKATTN_PUSH(PairDeltasPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint deltasBase, factsBase, sumsBase;                                  // workspace words: of dP, of the rows' facts and sums
    uint weightsBase, weightsBatch, weightsHead, weightsToken, weightsKey; // dWeights
    uint sinksBase;
    uint seedLow, seedHigh, dropoutOffset, threshold;
    uint planeFirst, planesOfBatch; // batch * heads + head of the chunk's first, and heads of the problem
    float keptFactor;
    uint headFirst; // of the chunk
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_CAP_DELTAS)
VKATTN_PUSH(CapDeltasPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint deltasBase, sumsBase; // workspace words
    float scale, softcap;      // softcap 0: none
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_COLUMNS)
VKATTN_PUSH(ColumnsPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint groupSize;
    uint headPhase;
    uint headFirst;
    uint keyHeads; // of the chunk
    uint dims;
    uint sumsFrom, sumsTo; // formCarried: workspace words where sums of a key head wait
    float factor;
    uint rBase, rBatch, rHead, rToken, rDim; // what is summed: rows of dOut or Q
    uint oBase, oBatch, oHead, oToken, oDim;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_BIAS_SUMS)
VKATTN_PUSH(BiasSumsPush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint batches;
    uint ownBatches, ownHeads, ownQueries, ownKeys; // extents of the chunk's part of dBias; 1 where it broadcasts
    uint broadcasts; // a bit for each dimension
    uint sumsBase;   // workspace word of the rows' sums
    uint carryBase, carryBatch, carryHead, carryQuery;
    float factor;
    uint oBase, oBatch, oHead, oQuery, oKey;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_ROW_SUMS)
VKATTN_PUSH(RowSumsPush) {
    uint flags;
    uint queryFirst, queries; // of this chunk
    uint heads, batches;      // whose rows are summed
    uint perHead;             // 1: a sum for each head
    uint sumsBase, number;    // workspace word of the rows' sums, and which of them
    uint carryBase;           // workspace word of the lanes' sums
    uint outBase;
    float factor;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_NONFINITE)
VKATTN_PUSH(NonfinitePush) {
    VKATTN_POSITION
    VKATTN_CHUNK
    uint groups; // heads of the tensor's part
    uint tokens, dims;
    uint wordBase;
    uint oBase, oBatch, oHead, oToken, oDim;
};
#endif
// What differs from one flash dispatch of a plan to the next: the piece of the problem, and where
// it lies. Strides of q, k and v and the scale are the same in all, and are here because shaders
// that loaded them from memory took more registers.
#define VKATTN_TILED_CHUNK(own)                                                                                                            \
    uint queryFirst;     /* of this chunk */                                                                                               \
    uint queries;        /* query rows in the chunk */                                                                                     \
    uint keyFirst;       /* first key of this dispatch */                                                                                  \
    uint keys;           /* keys of this dispatch */                                                                                       \
    uint headsAndPacked; /* query heads in the chunk | query heads packed as rows << 16 */                                                 \
    uint groupAndPhase;  /* query heads per key head | first head of the chunk modulo that << 16 */                                        \
    uint own;            /* of the kernel */                                                                                               \
    float scale;                                                                                                                           \
    uint qBase, qBatch, qHead, qToken;                                                                                                     \
    uint kBase, kBatch, kHead, kToken;                                                                                                     \
    uint vBase, vBatch, vHead, vToken;                                                                                                     \
    uint oBase;
// partsAndFirst: partial results of a row | the first of this dispatch << 16
#define VKATTN_FLASH_CHUNK VKATTN_TILED_CHUNK(partsAndFirst)

// What is the same in all flash dispatches of a plan, and needed without options too.
#define VKATTN_FLASH_PLAN                                                                                                                  \
    uint flags;                                                                                                                            \
    uint queryTokens; /* extent; ragged: a sequence may have less */                                                                       \
    uint keyTokens;   /* extent; a batch entry may have less */                                                                            \
    int left;                                                                                                                              \
    int right;                                                                                                                             \
    uint splitKeys; /* keys of a split, a multiple of the step */                                                                          \
    uint dims;      /* head dim | value dim << 16 */                                                                                       \
    uint oBatch, oHead, oToken;

// The environment: all that is constant over a plan with options, in the workspace.
// setup/environment.comp writes it before the first chunk. A number that is constant over the plan
// and that a new option needs is a member here, counted by environmentWords.
#define VKATTN_ENVIRONMENT                                                                                                                 \
    VKATTN_FLASH_PLAN                                                                                                                      \
    uint qDim, kDim, vDim, oDim;                                                                                                           \
    float softcap;                                                                                                                         \
    uint lseBatch, lseHead, lseToken;                                                                                                      \
    PairStrides biasStrides, maskStrides; /* of the mask or the bit mask */                                                                \
    uint idsQBatch, idsKBatch;                                                                                                             \
    VKATTN_DROPOUT /* the last words: written where there is dropout */
VKATTN_CONST environmentWords = 34u, dropoutWords = 6u;
struct Environment {
    VKATTN_ENVIRONMENT
};
// Behind the environment lie the small arrays over heads, gathered, as bits of floats. An array
// that the problem lacks leaves anything.
struct HeadFacts {
    uint sink, slope;
};

// The environment of gradient/rows.comp and keys.comp: that of the flash kernels, of which the output's strides are those
// of dOut, and what the backward pass adds.
struct GradientStrides {
    uint batch, head, token, dim;
};
#define VKATTN_GRADIENT_ENVIRONMENT                                                                                                        \
    VKATTN_ENVIRONMENT                                                                                                                     \
    GradientStrides dqStrides, dkStrides, dvStrides;                                                                                       \
    float factor; /* of every gradient: 1 / loss scale */
VKATTN_CONST gradientEnvironmentWords = environmentWords + 13u;
struct GradientEnvironment {
    VKATTN_GRADIENT_ENVIRONMENT
};

// The environment of statistics/: that of the flash kernels, of which nothing about the output is used, and
// how the outputs lie.
#define VKATTN_STATISTICS_ENVIRONMENT                                                                                                      \
    VKATTN_ENVIRONMENT                                                                                                                     \
    GradientStrides columnStrides, receivedStrides, topWeightStrides, topKeyStrides;                                                       \
    float densityThreshold;
VKATTN_CONST statisticsEnvironmentWords = environmentWords + 17u;
struct StatisticsEnvironment {
    VKATTN_STATISTICS_ENVIRONMENT
};

// One dispatch of environment.comp writes so many words; a longer environment takes another
// dispatch.
VKATTN_CONST environmentWordsAtOnce = 28u;
#if defined(__cplusplus) || defined(VKATTN_STAGE_ENVIRONMENT)
VKATTN_PUSH(EnvironmentPush) {
    uint firstAndCount; // words of the environment: the first of this dispatch | how many << 16
    uint heads;         // whose facts this dispatch gathers
    uint sinksBase, slopesBase;
    uint given[environmentWordsAtOnce];
};
#endif
#if defined(__cplusplus) || (defined(VKATTN_STAGE_FLASH) && !defined(VKATTN_OPTIONS))
VKATTN_PUSH(FlashPlainPush) {
    VKATTN_FLASH_CHUNK
    VKATTN_FLASH_PLAN
};
#endif
#if defined(__cplusplus) || (defined(VKATTN_STAGE_FLASH) && defined(VKATTN_OPTIONS))
VKATTN_PUSH(FlashPush) {
    VKATTN_FLASH_CHUNK
    uint headFirst; // of this chunk
    uint lengthsBase, lseBase, biasBase, maskBase, idsQBase, idsKBase;
    uint lseEntry; // from the maximum of a row to its sum
    uint planeFirst; // attention/dropout.glsl
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_GRADIENT)
// Bases of operands of the forward pass lie where FlashPush has them. ownedFirst: of the rows or keys
// that the dispatch owns; oBase: of dOut; lseBase: of the rows' facts.
VKATTN_PUSH(GradientPush) {
    VKATTN_TILED_CHUNK(ownedFirst)
    uint headFirst; // of this chunk
    uint lengthsBase, lseBase, biasBase, maskBase, idsQBase, idsKBase;
    uint planeFirst; // attention/dropout.glsl
    uint headGradientBase, valueGradientBase, nonfiniteBase;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_STATISTICS)
// Likewise. oBase: of the columns, or of what keys receive; lseBase: of the rows' scales. V is not bound.
VKATTN_PUSH(StatisticsPush) {
    VKATTN_TILED_CHUNK(ownedFirst)
    uint headFirst; // of this chunk
    uint lengthsBase, lseBase, biasBase, maskBase, idsQBase, idsKBase;
    uint topWeightsBase, topKeysBase;
    uint order; // orderFirst, orderLast
};
#endif
// The first and the last of the dispatches that go over what an item sees, chunk by chunk.
VKATTN_CONST orderFirst = 1u;
VKATTN_CONST orderLast = 2u;
#if defined(__cplusplus) || defined(VKATTN_STAGE_SEEING_ROWS)
VKATTN_PUSH(SeeingRowsPush) {
    uint rows; // of a head
    uint scalesBase;
};
#endif
#if defined(__cplusplus) || defined(VKATTN_STAGE_VISIBLE_BLOCKS)
// Lists count from the first row of blocks of the chunk.
VKATTN_PUSH(VisibleBlocksPush) {
    uint queryFirst, queries, keyFirst, keys; // of this chunk, in whole blocks
    uint headFirst, heads;                    // likewise
    uint lengthsBase, biasBase, maskBase, idsQBase, idsKBase;
    uint blockQueries, blockKeys;             // tokens of a block
    uint entries;                             // words of a row of indices
    uint rowsOfEntry, rowsOfHead;             // rows of blocks from one batch entry or head to the next
    uint order;                               // orderFirst: no chunk of keys came before; listsFull
    uint countsBase, indicesBase, fullCountsBase, fullIndicesBase;
};
#endif
VKATTN_CONST listsFull = 4u; // full blocks have lists of their own
#if defined(__cplusplus) || defined(VKATTN_STAGE_COMBINE)
VKATTN_PUSH(CombinePush) {
    VKATTN_POSITION
    uint heads, queries;
    uint keyFirst, keys; // attention/sequence.glsl
    uint packed;         // query heads packed as rows
    uint parts;          // partial results of a row
    uint valueDim;
    uint oBase, oBatch, oHead, oToken, oDim;
    uint lseBase, lseBatch, lseHead, lseToken, lseEntry;
    uint headFirst; // of this chunk
    float keptFactor; // of dropout; 1 without
};
#endif

#include "lib/prior.h"
#include "lib/operations.h"
#include "lib/cache.h"
#include "lib/linear.h"
#include "lib/linear_gradient.h"

#ifdef __cplusplus
} // namespace vkattn::interop
#endif
#endif
