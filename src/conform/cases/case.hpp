// One attention problem with its data, as `vkattn conform` and the tests describe, fill, run and
// check it.
#pragma once

#include "conform/cases/hooks/hooks.hpp"
#include "conform/cases/host_tensor.hpp"
#include "vkattn/runtime.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::conform {

enum class Data {
    normal,   // N(0, 1)
    needle,   // one key dominates every row; V encodes the key's number
    equal,    // all logits equal: the output is the mean of the visible V
    extreme,  // logits up to +-1e4 (f32) or +-6e4 (f16)
    denormal, // V is denormal in its type: devices may flush those of f32 and bf16 to 0
};

// Document ids of the tokens, over values that are unsigned and not small.
enum class Documents {
    none,
    runs,   // one document after the other, as packed sequences have them
    random, // any token of any document
};

// Grids of keys and blocks of pairs; by value vkattn_grid_rule and vkattn_block_kind.
enum class Grid { none, clamped, cut, windows };
// bigBird: where there are as many queries as keys; otherwise none.
enum class Blocks { none, mask, lists, indices, bigBird };

// The lengths of one sequence of a ragged batch.
struct SequenceLength {
    uint32_t queries, keys;
};

// Any number, where other signed members of a case are -1 or more.
struct TokenOffset {
    int32_t tokens = 0;
    bool operator==(const TokenOffset &) const = default;
};

struct Case {
    std::string name;
    // Ragged: batch is the number of sequences, queryTokens and keyTokens the most that one is
    // drawn with.
    uint32_t batch = 2, heads = 2, kvHeads = 2, queryTokens = 17, keyTokens = 19, headDim = 16, valueDim = 16;
    vkattn_dtype q = VKATTN_F32, k = VKATTN_F32, v = VKATTN_F32, out = VKATTN_F32, biasType = VKATTN_F32, weightsType = VKATTN_F32,
                 scoresType = VKATTN_F32;
    Style qStyle = Style::packed, kStyle = Style::packed, vStyle = Style::packed, outStyle = Style::packed, weightsStyle = Style::packed,
          scoresStyle = Style::packed;
    bool causal = false, topLeft = false, window = false;
    int32_t left = -1, right = -1;
    std::optional<float> scale;
    float softcap = 0;
    float dropout = 0;
    uint32_t dropoutSeed = 0, dropoutOffset = 0; // both halves of the seed are made of dropoutSeed
    bool weightsDropped = false;                 // where there are weights and dropout
    bool lse = false, rowStatistics = false;     // the latter: what lse holds, where there is one
    bool weights = false, lengths = false, hostileLengths = false;
    std::optional<vkattn_score_stage> scores; // as an output
    [[nodiscard]] bool writesPairs() const { return weights || scores; }
    void writeNoPairs() { weights = false, scores.reset(); }
    // Extents of mask and bias that are 1 (broadcast): bit d for dimension d.
    std::optional<uint32_t> maskBroadcast, biasBroadcast;
    bool shortMask = false;                   // mask and bias end before the keys do; not beside what has every key
    std::optional<uint32_t> bitMaskBroadcast; // bits 0 to 2; rows of words do not broadcast
    float biasHidden = 0.2f;                  // share of -infinity
    // Every finite bias has this value in half of the rows.
    std::optional<float> biasConstant;
    bool alibi = false;
    // Every head has this slope; otherwise they are drawn, a zero among them.
    std::optional<float> alibiSlope;
    bool sinks = false;
    // Every head has this sink; otherwise some are -infinity, some ordinary, some large.
    std::optional<float> sink;
    bool ragged = false;
    // ragged: these, and as many sequences; empty: drawn, zeros among them
    std::vector<SequenceLength> sequenceLengths;
    // ragged: some tokens before the first and after the last sequence belong to none
    bool raggedGaps = true;
    // ragged: maxSeqQ and maxSeqK are the longest lengths; otherwise 0, the totals
    bool raggedMax = false;
    // ragged: entries out of order and past the end, maxSeq* below a length
    bool hostileRagged = false;
    Documents documents = Documents::none;
    // With a window: how far its keys lie apart, and whether heads have dilations of their own, up to
    // that and past it. Global tokens are drawn, and bits past the last token hold anything.
    uint32_t dilation = 0;
    bool headDilations = false, globalTokens = false;
    bool prefixes = false; // with causal; some longer than there are keys
    // Where queries and keys stand: numbers, and with offsetArrays what is drawn for each batch entry is added,
    // with hostileOffsets anything.
    bool offsets = false, offsetArrays = false, hostileOffsets = false;
    TokenOffset queryOffset, keyOffset;
    // K and V lie in pages of so many tokens, some of them of several batch entries; 0: no pages. The keys are then
    // those of whole pages. Hostile: some entries of the table are no pages.
    uint32_t pageTokens = 0;
    bool csrPages = false, hostilePages = false; // in CSR; hostile: its other arrays may hold anything too
    // Further segments of K and V, 1 to 3; 0: K and V are whole. Some styles have none.
    uint32_t segments = 0;
    // The problem goes on from attention over other keys, whose output has this type.
    bool prior = false;
    vkattn_dtype priorType = VKATTN_F32;
    Grid grid = Grid::none;
    // Of the keys that there are, where these divide them; otherwise 1.
    uint32_t gridPlanes = 1, gridRows = 1;
    // Of a box: cut to what the extents allow. shift: of every axis, below its size.
    uint32_t sizePlanes = 1, sizeRows = 1, sizeColumns = 1, gridShift = 0;
    Blocks blocks = Blocks::none;
    uint32_t blockQueries = 8, blockKeys = 8, randomBlocks = 0, blockSeed = 0;
    bool blocksOfHeads = false, blocksOfBatches = false; // each has its own
    bool fullBlocks = false;                             // indices: of full blocks too
    bool hostileBlocks = false;                          // lists and indices: past the end, unordered, repeated
    Hooks hooks = Hooks::none;                           // of conform's program (hooks.glsl)
    bool deterministic = false;
    uint32_t slices = 0;
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
    Data data = Data::normal;
    uint32_t needle = 0; // Data::needle: which key
    bool poison = true;  // NaN and infinity in K and V wherever no row may see them
    // All heads read the same keys and values, all batch entries the same queries: strides of 0. No
    // poison.
    bool sharedHeads = false;
    // V is a view into K at an odd offset; its dim is at most that of the keys. No poison.
    bool valuesInKeys = false;
    // VKATTN_VALUES_IN_KEYS: V is the first dims of K and has no operand.
    bool keysHoldValues = false;
};

inline void dropPages(Case &c) {
    c.pageTokens = 0;
    c.csrPages = c.hostilePages = false;
}
// Operations but attention itself take keys and values in one piece, of types that not only caches have, masks of every key,
// and go on from no other keys.
inline void dropCacheForms(Case &c) {
    dropPages(c);
    c.segments = 0;
    c.prior = c.shortMask = false;
    if (isSmallType(c.k)) c.k = VKATTN_F16;
    if (isSmallType(c.v)) c.v = VKATTN_F16;
}

// Where one batch entry or sequence lies in the tensors: query i is token (batch, firstQuery + i)
// of q, out and lse.
struct Span {
    uint32_t batch, firstQuery, queries, firstKey, keys;
};

struct Outputs {
    HostTensor out, lse, weights, scores;
};

// Returns the keys of the segments behind k.
[[nodiscard]] uint32_t furtherKeys(const vkattn_problem &problem);
// Returns the most keys that a batch entry or sequence of a problem may have.
[[nodiscard]] uint32_t mostKeys(const vkattn_problem &problem);

struct CaseData {
    Case c;
    vkattn_problem problem{};
    // k and v are whole; `segments` has what the problem reads in place of their later keys, gathered from them.
    HostTensor q, k, v, out, lse, weights, scores, mask, bias, bitMask, priorOut, priorLse;
    vkattn_layout kWhole{}, vWhole{};
    HostTensor segments[6];
    std::vector<uint32_t> lengths, cuQ, cuK, docsQ, docsK;
    std::vector<uint32_t> globals, prefixes, dilations, queryOffsets, keyOffsets;
    std::vector<uint32_t> pages;                       // the table, or the indices of CSR
    std::vector<uint32_t> pageIndptr, lastPageLengths; // CSR
    std::vector<unsigned char> blockMask;
    std::vector<uint32_t> hookNumbers, hookBits; // what the program reads
    std::vector<uint32_t> blockRows, blockColumns, blockCounts, blockIndices, fullCounts, fullIndices;
    std::vector<float> sinks, slopes;
    // Of each batch entry or sequence: what the arrays mean once they are clamped.
    std::vector<Span> spans;
    std::vector<vkattn_operand_memory> operands;

    // 1 for each key that a query sees, by the oracle's rule (vkattnCpuVisible). Query and keys
    // count within the span; there is a byte for each key that the problem may have.
    [[nodiscard]] std::vector<unsigned char> visibleKeys(uint32_t b, uint32_t h, uint32_t i) const;
    // The aligned position i' of query i, which distances are measured from.
    [[nodiscard]] int64_t position(uint32_t b, uint32_t i) const;
    [[nodiscard]] uint32_t keyLength(uint32_t b) const { return spans[b].keys; }
    // Returns whether a query of a sequence has this token in q, out and lse; a key, in k and v. Without
    // ragged batches all tokens are queries and keys: keys past a length are written, with 0.
    [[nodiscard]] bool isQuery(uint32_t b, uint32_t token) const;
    [[nodiscard]] bool isKey(uint32_t b, uint32_t token) const;
    // Where a key of a sequence lies in k and v: along their first extent, and along the tokens. Without pages the
    // batch entry; nullopt: on no page.
    struct KeyPlace {
        uint32_t batch, token;
    };
    [[nodiscard]] std::optional<KeyPlace> placeOf(const Span &s, uint32_t key) const;
    // What comes before may have changed: after a change of lengths, cuQ or cuK, and after one of
    // any tensor.
    void findSpans();
    void collectOperands();

    // The arrays of one number a head that the problem has.
    struct HeadArray {
        const char *name;
        std::vector<float> *values;
    };
    [[nodiscard]] std::vector<HeadArray> headArrays();

    [[nodiscard]] Outputs outputs() const { return {out, lse, weights, scores}; }
    // Empty: no byte changed but those of elements that a row writes. Rows of no sequence, and
    // weights and scores outside one, are not written.
    [[nodiscard]] std::string damage(const Outputs &before) const;

    // Of makeCaseData: what problem has of segments and of what it goes on from, and the data of the latter.
    void describeSegments();
    void describePrior();
    void drawPrior(Random &random);

  private:
    void collectSegments();
    [[nodiscard]] Span spanOf(uint32_t b) const;
};

[[nodiscard]] std::unique_ptr<CaseData> makeCaseData(const Case &c, Random &random);

// A run on the runtime, which must not fall back, and what is wrong with it.
struct Ran {
    RunResult result;
    vkattn_verify_report report{}; // where the run succeeded
    // Empty: the result is within its bounds, and no byte changed that must not.
    std::string wrong;
};
[[nodiscard]] Ran runAndVerify(Runtime &runtime, CaseData &data);
// Empty, or what is beyond its bounds of what a run has left in the outputs of the data.
[[nodiscard]] std::string verifyAttention(const CaseData &data, const RunResult &result, vkattn_verify_report &report);
// Only what is wrong; "run: " and the message where the run failed.
[[nodiscard]] std::string runAndCheck(Runtime &runtime, CaseData &data, vkattn_verify_report *report = nullptr);

// The case matrix: every option, pairs of options, odd sizes, needle data, extremes. `full` adds
// all pairs. Names of pairs have a "_".
[[nodiscard]] std::vector<Case> caseMatrix(Random &random, bool full);
// What a form of a kernel compiles in bounded time. Every option alone, but of the types and dims a
// few that the seed draws; and of the other cases, pairs of options among them, those that share
// the pipelines of these, with `pipelines` more. Without weights and scores.
[[nodiscard]] std::vector<Case> formMatrix(Random &random, size_t pipelines);
// Cases with the same signature have the same pipelines, on one kernel and device.
[[nodiscard]] std::string pipelineSignature(const Case &c);
// Up to `most` random options at once.
[[nodiscard]] Case randomCase(Random &random, uint32_t most);

} // namespace vkattn::conform
