// Layouts of linear attention (linear/), shared by shaders and planner; part of interop.h.
//
// The scan goes over chunks of tokens. A chunk has `chunkTokens` slots: of keys, and of the query rows
// that read after them. Reading chunks have rows alone, which read the state behind the last key. What
// prepare.comp finds of a chunk lies in the workspace, a block a chunk:
//     fromStart [slot], toEnd [slot], strength [slot]    decays as factors, and beta
//     pairs of keys [slot][slot], pairs of rows [group][slot][slot]
//     at readAt: factors of rows [group][slot]
// and, at places of the environment, what only some forms have.
//
// slots of the storage buffers
VKATTN_CONST slotLinearQ = 1u; // slotWorkspace = 0
VKATTN_CONST slotLinearK = 2u;
VKATTN_CONST slotLinearV = 3u;
VKATTN_CONST slotLinearOut = 4u;
VKATTN_CONST slotLinearStateIn = 5u;
VKATTN_CONST slotLinearStateOut = 6u;
VKATTN_CONST slotLinearSnapshots = 7u;
VKATTN_CONST slotLinearDecay = 8u; // or omega: no rule has both
VKATTN_CONST slotLinearStrength = 9u;
VKATTN_CONST slotLinearLengths = 10u;

// elementTypes: that of Q lowest, that of out at typesOut
VKATTN_CONST typesLinearK = 8u;
VKATTN_CONST typesLinearV = 12u;
VKATTN_CONST typesLinearDecay = 16u;
VKATTN_CONST typesLinearStrength = 20u;

// form
VKATTN_CONST formLinearDelta = 1u;
VKATTN_CONST formLinearGated = 2u;    // a decay for each token
VKATTN_CONST formLinearKeyDims = 4u;  // or for each of its key dims
VKATTN_CONST formLinearMapped = 8u;   // features, which map.comp makes
VKATTN_CONST formLinearMaximum = 16u; // they are exponents, and the state has a running maximum
VKATTN_CONST formLinearCausal = 32u;
VKATTN_CONST formLinearTopLeft = 64u;
VKATTN_CONST formLinearModulo = 128u; // heads repeat as a whole
VKATTN_CONST formLinearLengths = 256u;
VKATTN_CONST formLinearStateIn = 512u;
VKATTN_CONST formLinearStateOut = 1024u;
VKATTN_CONST formLinearSnapshots = 2048u;
VKATTN_CONST formLinearRows = 4096u;    // q and out are there
VKATTN_CONST formLinearReading = 8192u; // the chunks are reading chunks
VKATTN_CONST formLinearFeatures = 14u;  // bit of the first, 2 bits: vkattn_feature_map
VKATTN_CONST formLinearRandom = 65536u; // there is an omega
VKATTN_CONST formLinearOfRows = 131072u; // map.comp: rows in place of keys
VKATTN_CONST formLinearWholeRows = 262144u; // scan.comp and token.comp: lanes cover the rows of the state exactly
VKATTN_CONST formLinearWholeColumns = 1048576u; // and its columns
VKATTN_CONST formLinearElu1 = 4194304u; // features of one number each, made where it is loaded
VKATTN_CONST formLinearRelu = 8388608u;
VKATTN_CONST formLinearOneSpan = 2097152u; // scan.comp: no other dispatch has a part of the state's way
VKATTN_CONST formLinearWholeSubgroups = 524288u; // prepare.comp: a subgroup has the slots of one chunk

// How an operand lies: in the environment, five words an operand in this order.
VKATTN_CONST linearQ = 0u;
VKATTN_CONST linearK = 1u;
VKATTN_CONST linearV = 2u;
VKATTN_CONST linearOut = 3u;
VKATTN_CONST linearDecay = 4u;
VKATTN_CONST linearStrength = 5u;
VKATTN_CONST linearOmega = 6u;
VKATTN_CONST linearStateIn = 7u;
VKATTN_CONST linearStateOut = 8u;
VKATTN_CONST linearSnapshots = 9u;
VKATTN_CONST linearOperandWords = 5u; // strides of batch, head, token and dim; how many heads
// Behind them: words from the beginning of a chunk's block.
VKATTN_CONST linearKeysAt = 50u;     // keys as the delta rules read with them [slot][row]
VKATTN_CONST linearRowsAt = 51u;     // rows as they read [group][slot][row]
VKATTN_CONST linearKeyMapAt = 52u;   // features of keys [slot][row]
VKATTN_CONST linearRowMapAt = 53u;   // of rows [group][slot][row]
VKATTN_CONST linearNormAt = 54u;     // z before the chunk, then the maxima [2][row]
VKATTN_CONST linearEnvironmentWords = 55u;

#if defined(__cplusplus) || defined(VKATTN_STAGE_LINEAR)
VKATTN_PUSH(LinearPush) {
    uint qBase, kBase, vBase, oBase, stateInBase, stateOutBase, snapshotsBase, decayBase, strengthBase, lengthsBase;
    uint chunkFirst, chunks; // of the dispatch
    uint span;               // bits, as below
    uint keyTokens, queryTokens, keyDim, valueDim;
    uint rows;                  // of the state: key dims or features
    uint rowPitch, columnPitch; // words between rows of features, and between rows of the state in the workspace
    uint snapshotTokens, chunksPerSnapshot; // without snapshots more than there are
    uint heads, stateHeads;
    float scale, epsilon;
    uint stateBase, chunksBase, chunkWords; // words of the workspace
    uint readAt, factorAt, keysToEndAt;     // words of a chunk's block; factors of the state's rows
};
#endif
VKATTN_CONST spanFirst = 1u; // the state is that of stateIn, otherwise of the workspace
VKATTN_CONST spanLast = 2u;  // the state behind it is that of stateOut
VKATTN_CONST spanKeeps = 4u; // another dispatch needs the state
