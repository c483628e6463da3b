// The storage buffers of every stage. All are words: 16-bit elements, bytes and bits are picked out
// of them.
layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
// Bits of interop.h. staged/pairs.comp has the one term of the dispatch, other stages of the staged kernel
// what they need, the fused kernels all terms.
layout(constant_id = constantPairTerms) const uint pairTerms = 0;
// Modules without the hook are what they would be without the possibility.
#if defined(VKATTN_HOOK_ROW) || defined(VKATTN_STAGE_COMBINE)
const bool sumless = (pairTerms & termRowHook) != 0u;
#else
const bool sumless = false;
#endif
#ifdef VKATTN_HOOK_PROBABILITY
const bool weighsPairs = (pairTerms & termProbabilityHook) != 0u;
#else
const bool weighsPairs = false;
#endif
#ifdef VKATTN_HOOK_SCORE
const bool hooksScores = (pairTerms & termScoreHook) != 0u;
#else
const bool hooksScores = false;
#endif
const uint qType = elementTypes & 15u, outType = elementTypes >> typesOut & 15u;

#define VKATTN_READS(slot, Block, words) layout(set = 0, binding = slot, std430) readonly buffer Block { uint words[]; };
#define VKATTN_WRITES(slot, Block, words) layout(set = 0, binding = slot, std430) writeonly buffer Block { uint words[]; };
#define VKATTN_CHANGES(slot, Block, words) layout(set = 0, binding = slot, std430) buffer Block { uint words[]; };
// What memory holds for each pair, of fused kernels.
#define VKATTN_READS_PAIRS                                                                                                                 \
    VKATTN_READS(slotBias, Bias, bias)                                                                                                     \
    VKATTN_READS(slotMask, Mask, mask)                                                                                                     \
    VKATTN_READS(slotIdsQ, IdsQ, idsQ)                                                                                                     \
    VKATTN_READS(slotIdsK, IdsK, idsK)

#if defined(VKATTN_STAGE_FLASH)
VKATTN_READS(slotQ, Q, q)
VKATTN_READS(slotK, K, k)
VKATTN_READS(slotV, V, v)
VKATTN_CHANGES(slotOut, Out, outWords) // the output, or the partial results in the workspace
uint headDim, valueDim; // beginTile() unpacks them
#ifdef VKATTN_OPTIONS
// Members are named as those of the push constants of the form without options: shaders see no
// difference.
layout(set = 0, binding = slotEnvironment, std430) restrict readonly buffer EnvironmentBlock {
    VKATTN_ENVIRONMENT
    HeadFacts headFacts[];
};
#define VKATTN_LENGTHS_BOUND
VKATTN_READS(slotLengths, Lengths, lengths) // or the table of sequences of a ragged batch
VKATTN_WRITES(slotLse, Lse, lse)
VKATTN_READS_PAIRS
#else
const uint qDim = 1u, kDim = 1u, vDim = 1u, oDim = 1u;
#endif

#elif defined(VKATTN_STAGE_GRADIENT)
VKATTN_READS(slotQ, Q, q)
VKATTN_READS(slotK, K, k)
VKATTN_READS(slotV, V, v)
VKATTN_READS(slotDOut, DOut, dOut)
uint headDim, valueDim; // beginTile() unpacks them
layout(set = 0, binding = slotEnvironment, std430) restrict readonly buffer EnvironmentBlock {
    VKATTN_GRADIENT_ENVIRONMENT
    HeadFacts headFacts[];
};
#define VKATTN_LENGTHS_BOUND
VKATTN_READS(slotLengths, Lengths, lengths) // or the table of sequences of a ragged batch
VKATTN_READS(slotRowFacts, Facts, rowFacts)
VKATTN_READS_PAIRS
VKATTN_CHANGES(slotHeadGradient, HeadGradient, headGradient)
VKATTN_CHANGES(slotValueGradient, ValueGradient, valueGradient)
VKATTN_CHANGES(slotNonfinite, Nonfinite, nonfinite)

#elif defined(VKATTN_STAGE_STATISTICS)
VKATTN_READS(slotQ, Q, q)
VKATTN_READS(slotK, K, k)
uint headDim;
layout(set = 0, binding = slotEnvironment, std430) restrict readonly buffer EnvironmentBlock {
    VKATTN_STATISTICS_ENVIRONMENT
    HeadFacts headFacts[];
};
#define VKATTN_LENGTHS_BOUND
VKATTN_READS(slotLengths, Lengths, lengths) // or the table of sequences of a ragged batch
VKATTN_CHANGES(slotRowScales, RowScales, rowScales)
VKATTN_READS_PAIRS
#ifdef VKATTN_OWNS_KEYS
VKATTN_CHANGES(slotStatistics, Received, received)
#else
VKATTN_CHANGES(slotStatistics, Columns, columns)
VKATTN_CHANGES(slotTopWeights, TopWeights, topWeights)
VKATTN_CHANGES(slotTopKeys, TopKeys, topKeys)
#endif

#elif defined(VKATTN_STAGE_VISIBLE_BLOCKS)
VKATTN_CHANGES(slotBlockCounts, Counts, counts)
VKATTN_WRITES(slotBlockIndices, Indices, indices)
VKATTN_CHANGES(slotFullBlockCounts, FullCounts, fullCounts)
VKATTN_WRITES(slotFullBlockIndices, FullIndices, fullIndices)
layout(set = 0, binding = slotEnvironment, std430) restrict readonly buffer EnvironmentBlock {
    VKATTN_ENVIRONMENT
    HeadFacts headFacts[];
};
#define VKATTN_LENGTHS_BOUND
VKATTN_READS(slotLengths, Lengths, lengths) // or the table of sequences of a ragged batch
VKATTN_READS_PAIRS

#elif defined(VKATTN_STAGE_COMBINE)
VKATTN_READS(slotPartials, Partials, partials)
VKATTN_CHANGES(slotOut, Out, outWords)
layout(set = 0, binding = slotEnvironment, std430) readonly buffer EnvironmentBlock {
    Environment environment;
    HeadFacts headFacts[];
};
#define VKATTN_LENGTHS_BOUND
VKATTN_READS(slotLengths, Lengths, lengths) // or the table of sequences of a ragged batch
VKATTN_WRITES(slotLse, Lse, lse)

#elif defined(VKATTN_STAGE_ENVIRONMENT)
#ifdef VKATTN_GRADIENT
const uint words = gradientEnvironmentWords;
#elif defined(VKATTN_STATISTICS)
const uint words = statisticsEnvironmentWords;
#else
const uint words = environmentWords;
#endif
layout(set = 0, binding = slotWorkspace, std430) writeonly buffer EnvironmentBlock {
    uint environment[words];
    HeadFacts headFacts[];
};
VKATTN_READS(slotFirst, Sinks, sinks)
VKATTN_READS(slotSecond, Slopes, slopes)

#elif defined(VKATTN_STAGE_SEQUENCES)
VKATTN_WRITES(slotWorkspace, Table, table)
VKATTN_READS(slotFirst, CuQ, cuQ)
VKATTN_READS(slotSecond, CuK, cuK)

#elif defined(VKATTN_STAGE_RULES) || defined(VKATTN_STAGE_BLOCKS)
VKATTN_CHANGES(slotWorkspace, Table, table)
VKATTN_READS(slotFirst, First, first)
VKATTN_READS(slotSecond, Second, second)

#elif defined(VKATTN_STAGE_SINKS)
VKATTN_WRITES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, Sinks, sinks)

#elif defined(VKATTN_STAGE_SEEING_ROWS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)

#elif defined(VKATTN_STAGE_ROW_SUMS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_WRITES(slotFirst, Out, outWords)

#else // stages of the staged kernel that ask where sequences lie
#define VKATTN_LENGTHS_BOUND
VKATTN_READS(slotStagedLengths, Lengths, lengths)
#if defined(VKATTN_STAGE_SCORES)
VKATTN_WRITES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, Q, q)
VKATTN_READS(slotSecond, K, k)
#define VKATTN_SOFTCAP
#elif defined(VKATTN_STAGE_PAIRS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, First, first)
VKATTN_READS(slotSecond, Second, second)
#elif defined(VKATTN_STAGE_SOFTMAX)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_WRITES(slotFirst, Lse, lse)
VKATTN_CHANGES(slotSecond, Weights, weights)
#define VKATTN_DROPS
#elif defined(VKATTN_STAGE_VALUES)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, V, v)
VKATTN_CHANGES(slotSecond, Out, outWords)
#elif defined(VKATTN_STAGE_WRITE_SCORES)
VKATTN_READS(slotWorkspace, Workspace, workspace)
VKATTN_CHANGES(slotFirst, Out, outWords)
#elif defined(VKATTN_STAGE_ROW_FACTS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, First, first)   // dOut, or the statistics
VKATTN_READS(slotSecond, Second, second) // out, or dLse
#elif defined(VKATTN_STAGE_PAIR_DELTAS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, DWeights, dWeights)
VKATTN_READS(slotSecond, Sinks, sinks)
#elif defined(VKATTN_STAGE_CAP_DELTAS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
#elif defined(VKATTN_STAGE_COLUMNS)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, Rows, rows)
VKATTN_CHANGES(slotSecond, Out, outWords)
#elif defined(VKATTN_STAGE_BIAS_SUMS)
VKATTN_READS(slotWorkspace, Workspace, workspace)
VKATTN_CHANGES(slotFirst, Out, outWords)
VKATTN_CHANGES(slotSecond, Carry, carry)
#elif defined(VKATTN_STAGE_PRIOR)
VKATTN_CHANGES(slotWorkspace, Workspace, workspace)
VKATTN_READS(slotFirst, First, first)    // priorOut, or the sinks
VKATTN_READS(slotSecond, Second, second) // priorLse
#elif defined(VKATTN_STAGE_NONFINITE)
VKATTN_CHANGES(slotWorkspace, Word, word)
VKATTN_READS(slotFirst, Stored, stored)
#endif
#endif

// The operands of pair terms, as attention/pair.glsl names them. A dispatch of staged/pairs.comp
// has one term, and so no more than two.
#if defined(VKATTN_STAGE_PAIRS)
#define VKATTN_PAIR_OPERANDS
const uint biasType = elementTypes >> typesBias & 15u;
#define bias first
#define mask first
#define idsQ first
#define idsK second
#define biasBase firstBase
#define maskBase firstBase
#define idsQBase firstBase
#define idsKBase secondBase
#define biasStrides firstStrides
#define maskStrides firstStrides
#define idsQBatch firstStrides.batch
#define idsKBatch secondStrides.batch
#define SLOPE_BITS(head) first[firstBase + (head)]
#elif defined(VKATTN_OPTIONS)
#define VKATTN_PAIR_OPERANDS
#define VKATTN_SOFTCAP
#define VKATTN_DROPS
#define biasType (flags >> flagsBiasType & 15u)
#define SLOPE_BITS(head) headFacts[headFirst + (head)].slope
#endif
