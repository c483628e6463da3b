// Layouts of the backward pass of linear attention (linear/gradient/), shared by shaders and planner; part of
// interop.h.
//
// The chunks of a span are gathered in the workspace as f32, a block each, with zeros where nothing is. A chunk of
// keys has `chunkTokens` slots, each of a token and of the row that reads behind it; reading chunks, behind all of
// those, have rows alone, which read the last state. A scan has one side of the state in lanes and a block of the
// other in registers: parts of what blocks give lie side by side, and are added in order.
//
// slots of the storage buffers
VKATTN_CONST slotLinearSource = 1u; // slotWorkspace = 0; what is gathered
VKATTN_CONST slotLinearGradient = 2u;
VKATTN_CONST slotLinearOmega = 3u;
VKATTN_CONST slotLinearGradientLengths = 4u;
VKATTN_CONST slotLinearNonfinite = 5u;

// elementTypes: that of what is gathered lowest, that of the gradient at typesOut

// form, where not that of linear.h
VKATTN_CONST formLinearWholeBlocks = 1u << 24; // blocks cover the side of the state in registers exactly
VKATTN_CONST formLinearOutward = 1u << 25;      // a stage that has two ways: the way out, token after token
VKATTN_CONST formLinearNonfinite = 1u << 26;    // the word of NONFINITE is bound
VKATTN_CONST formLinearSums = 1u << 27;         // the gradient has one number for all rows of the state

// The environment, words of the workspace. Behind the first six: words from the beginning of a chunk's block.
VKATTN_CONST linearGradientRowPitch = 0u;    // words between rows of what has a number for each row of the state
VKATTN_CONST linearGradientColumnPitch = 1u; // for each column
VKATTN_CONST linearGradientBlockWords = 2u;
VKATTN_CONST linearGradientUnitWords = 3u; // of the states of a batch entry and a state head
VKATTN_CONST linearGradientStatesAt = 4u;
VKATTN_CONST linearGradientBlocksAt = 5u;
VKATTN_CONST linearGradientKeys = 6u;           // [slot][row]
VKATTN_CONST linearGradientRows = 7u;           // queries [group][slot][row]
VKATTN_CONST linearGradientFactors = 8u;        // decays [slot] or [slot][row]
VKATTN_CONST linearGradientValues = 9u;         // what tokens write [slot][column]
VKATTN_CONST linearGradientGiven = 10u;         // dOut, of delta rules then dv [group][slot][column]
VKATTN_CONST linearGradientStrengths = 11u;     // beta [slot]
VKATTN_CONST linearGradientPairs = 12u;         // products of slots, kinds as below [kind][slot][slot]
VKATTN_CONST linearGradientKeysToEnd = 13u;     // decayed [slot][row]
VKATTN_CONST linearGradientRowsFromStart = 14u; // [group][slot][row], of delta rules then keys
VKATTN_CONST linearGradientChunkFactors = 15u;  // [row]
VKATTN_CONST linearGradientInverses = 16u;      // of denominators [group][slot]
VKATTN_CONST linearGradientOfDenominators = 17u; // E [group][slot]
VKATTN_CONST linearGradientNormalizers = 18u;    // z [slot][row]
VKATTN_CONST linearGradientStates = 19u;         // before the chunk [column][row]
VKATTN_CONST linearGradientReads = 20u;          // of the state before the chunk [block][group][slot][row]
VKATTN_CONST linearGradientDRows = 21u;          // [block][group][slot][row], of delta rules then R dv
VKATTN_CONST linearGradientDKeys = 22u;          // [block][slot][row]
VKATTN_CONST linearGradientDDecays = 23u;        // likewise
VKATTN_CONST linearGradientDValues = 24u;        // [block][slot][column]
VKATTN_CONST linearGradientDifferences = 25u;    // e [slot][column]
VKATTN_CONST linearGradientDStrengths = 26u;     // [slot][column]
VKATTN_CONST linearGradientKeyStrides = 27u;     // of k: batch, head, token, dim; how many heads
VKATTN_CONST linearGradientEnvironmentWords = 32u;

// Kinds of pairs: of keys with queries, a kind for each head of out; of keys with keys; and, from the kind behind
// those on, of values with dOut and with dv.
#if defined(__cplusplus) || defined(VKATTN_STAGE_LINEAR_GRADIENT)
VKATTN_PUSH(LinearGradientPush) {
    uint sourceBase, gradientBase, omegaBase, lengthsBase, nonfiniteBase;
    uint batchStride, headStride, tokenStride, dimStride, ownHeads; // of what is gathered, or of the gradient
    uint omegaHead, omegaToken, omegaDim, omegaHeads;
    uint chunkFirst, chunks, spanChunks; // of the dispatch; that blocks are there for
    uint keyTokens, queryTokens, keyChunks;
    uint keyDim, valueDim, rows; // rows: of the state
    uint heads, stateHeads;
    float scale, epsilon, lossScale;
    uint stateFrom, stateTo; // words of a unit's states
    uint what;               // of the stage: an array, a kind of pairs and how many, what is done
    uint batches;            // that add to one gradient
};
#endif
// what: of gather.comp and scatter.comp, the operand
VKATTN_CONST linearOfKeys = 0u;
VKATTN_CONST linearOfRows = 1u;
VKATTN_CONST linearOfValues = 2u;
VKATTN_CONST linearOfGiven = 3u;
VKATTN_CONST linearOfDecays = 4u;
VKATTN_CONST linearOfStrengths = 5u;
// of scans: the state goes on, and nothing else is needed
VKATTN_CONST linearStatesOnly = 1u;
// of finish.comp
VKATTN_CONST linearFinishRows = 0u;
VKATTN_CONST linearFinishKeys = 1u;
VKATTN_CONST linearFinishDecays = 2u;
VKATTN_CONST linearFinishStrengths = 3u;
// of state.comp
VKATTN_CONST linearStateZero = 0u;
VKATTN_CONST linearStateLoad = 1u;
VKATTN_CONST linearStateStore = 2u;
