// The dispatches of the staged path: per chunk of rows, sinks, scores and what changes them (overlays) for each chunk of keys, softmax,
// values for each chunk of keys. Order, per chunk of rows with n chunks of keys, as far as the problem has the options:
//     sinks, scores x n | bias x n | ALiBi x n | mask x n | bit mask x n | documents x n | softmax | values | values | ...
// with a barrier at every bar; dispatches between bars touch disjoint columns of the workspace. Ragged batches begin with one dispatch that
// reads where the sequences lie.
#include "core/plan.hpp"
#include "lib/interop.h"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace vkattn {
namespace {

using namespace interop;

// The chunk that a dispatch works on, in the problem's coordinates.
struct Chunk {
    uint32_t batchFirst, batches, headFirst, heads, queryFirst, queries, keyFirst, keys;
};

constexpr uint32_t divideUp(uint32_t a, uint32_t b) {
    return a / b + (a % b != 0);
}

// The box of a tensor, seen from its element (batch, head, token, dim) = first.
Operand tensorOperand(const Problem &p, vkattn_role role, const Box &box, const uint32_t (&first)[4], size_t basePushByte) {
    const Tensor &t = p.tensor(role);
    const ByteRange range = t.span(box);
    const uint64_t size = elementBytes(t.dtype);
    uint64_t at[4];
    for (int d = 0; d < 4; ++d) at[d] = t.extent[d] == 1 ? 0 : first[d]; // broadcast
    return {role,
            range.begin,
            range.end,
            t.index(at[0], at[1], at[2], at[3]) * size,
            static_cast<uint32_t>(basePushByte / 4),
            static_cast<uint32_t>(size),
            isOutput(role)};
}

// Of a ragged batch all tokens are bound, from the first on: where a sequence begins only the device knows. The base is the chunk's first
// token as if the sequence began at 0; shaders add its start.
Operand tokensOperand(const Problem &p, vkattn_role role, const Chunk &c, uint32_t headFirst, uint32_t heads, uint32_t tokenFirst,
                      uint32_t tokens, size_t basePushByte) {
    const Tensor &t = p.tensor(role);
    if (p.ragged())
        return tensorOperand(p, role, {{0, headFirst, 0, 0}, {1, heads, t.extent[2], t.extent[3]}}, {0, headFirst, tokenFirst, 0},
                             basePushByte);
    return tensorOperand(p, role, {{c.batchFirst, headFirst, tokenFirst, 0}, {c.batches, heads, tokens, t.extent[3]}},
                         {c.batchFirst, headFirst, tokenFirst, 0}, basePushByte);
}
Operand rowsOperand(const Problem &p, vkattn_role role, const Chunk &c, size_t basePushByte) {
    return tokensOperand(p, role, c, c.headFirst, c.heads, c.queryFirst, c.queries, basePushByte);
}
Operand keysOperand(const Problem &p, vkattn_role role, const Chunk &c, size_t basePushByte) {
    const uint32_t first = c.headFirst / p.groupSize(), last = (c.headFirst + c.heads - 1) / p.groupSize();
    return tokensOperand(p, role, c, first, last - first + 1, c.keyFirst, c.keys, basePushByte);
}
// Bias, masks and weights: `first` and `count` of the innermost dimension, keys or words.
Operand pairsOperand(const Problem &p, vkattn_role role, const Chunk &c, uint32_t first, uint32_t count, size_t basePushByte) {
    return tensorOperand(p, role, {{c.batchFirst, c.headFirst, c.queryFirst, first}, {c.batches, c.heads, c.queries, count}},
                         {c.batchFirst, c.headFirst, c.queryFirst, first}, basePushByte);
}

// Elements [first, first + count) of a role without a layout, seen from element `base`.
Operand arrayOperand(vkattn_role role, uint64_t first, uint64_t count, uint64_t base, size_t basePushByte) {
    return {role, 4 * first, 4 * (first + count), 4 * base, static_cast<uint32_t>(basePushByte / 4), 4, false};
}
Operand headsOperand(vkattn_role role, const Chunk &c, size_t basePushByte) {
    return arrayOperand(role, c.headFirst, c.heads, c.headFirst, basePushByte);
}
// Document ids lie as tokens do.
Operand documentsOperand(const Problem &p, vkattn_role role, const Chunk &c, uint32_t extent, uint32_t tokenFirst, uint32_t tokens,
                         size_t basePushByte) {
    if (p.ragged()) return arrayOperand(role, 0, arrayLength(p, role), tokenFirst, basePushByte);
    const uint64_t first = uint64_t{c.batchFirst} * extent + tokenFirst;
    return arrayOperand(role, first, (c.batches - 1ull) * extent + tokens, first, basePushByte);
}

Operand scoresOperand(const Plan &plan, bool writes) {
    return {VKATTN_WORKSPACE, plan.tableBytes, plan.workspaceBytes, plan.tableBytes, noPushWord, 4, writes};
}

// Every binding of every pipeline must be valid; an unused one shows something else of the same dispatch and is not accessed.
Operand standIn(const Operand &other) {
    Operand operand = other;
    operand.basePushWord = noPushWord;
    operand.writes = false;
    return operand;
}
Operand unused(const Plan &plan) {
    return scoresOperand(plan, false);
}

// Key lengths, or the table of sequences of a ragged batch: a range of the workspace of its own, so that validation sees no read of what
// other dispatches write.
Operand lengthsOperand(const Plan &plan, const Chunk &c, size_t basePushByte, const Operand &other) {
    if (plan.problem.ragged()) {
        const uint64_t bytes = 4ull * sequenceWords, begin = bytes * c.batchFirst;
        return {VKATTN_WORKSPACE, begin, begin + bytes * c.batches, begin, static_cast<uint32_t>(basePushByte / 4), 4, false};
    }
    if (!plan.problem.has(VKATTN_KEY_LENGTHS)) return standIn(other);
    return arrayOperand(VKATTN_KEY_LENGTHS, c.batchFirst, c.batches, c.batchFirst, basePushByte);
}

uint32_t stride(const Tensor &t, int d) {
    return static_cast<uint32_t>(t.stride[d]);
} // modulo 2^32, as interop.h says

template <class Push> void setPosition(Push &push, const Plan &plan, const Chunk &c) {
    const Problem &p = plan.problem;
    push.flags = (p.topLeft ? flagTopLeft : 0) | (p.has(VKATTN_KEY_LENGTHS) ? flagKeyLengths : 0) | (p.ragged() ? flagRagged : 0);
    push.queryFirst = c.queryFirst;
    push.queryTokens = p.queryTokens;
    push.keyTokens = p.keyTokens;
    push.left = p.left;
    push.right = p.right;
}

template <class Push> void setChunk(Push &push, const Plan &plan, const Chunk &c) {
    push.heads = c.heads;
    push.queries = c.queries;
    push.keyFirst = c.keyFirst;
    push.keys = c.keys;
    push.rowPitch = plan.rowPitch;
}

template <class Push> void setPush(Dispatch &dispatch, const Push &push) {
    static_assert(sizeof(Push) <= sizeof dispatch.pushWords, "Vulkan 1.0 guarantees 128 bytes");
    std::memcpy(dispatch.pushWords, &push, sizeof push);
    dispatch.pushBytes = sizeof push;
}

static_assert(elementF32 == VKATTN_F32 && elementF16 == VKATTN_F16 && elementBf16 == VKATTN_BF16);
uint32_t type(const Problem &p, vkattn_role role) {
    return static_cast<uint32_t>(p.tensor(role).dtype);
}
// How many rows a chunk has depends on limits and batch size; what must not depend on them takes one class.
TileClass rowClass(const Plan &plan, const Chunk &c) {
    return !plan.problem.deterministic && c.queries < plan.tuning.fewRowsBelow ? fewRows : manyRows;
}

void makeSequences(const Plan &plan, Dispatch &d) {
    const Problem &p = plan.problem;
    SequencesPush push{};
    push.sequences = p.batch;
    push.totalQueries = p.tensor(VKATTN_Q).extent[2];
    push.totalKeys = p.tensor(VKATTN_K).extent[2];
    push.maxQueries = p.queryTokens;
    push.maxKeys = p.keyTokens;
    setPush(d, push);
    const uint64_t count = p.batch + 1ull;
    d.operands[0] = {VKATTN_WORKSPACE, 0, 4ull * sequenceWords * p.batch, 0, noPushWord, 4, true};
    d.operands[1] = arrayOperand(VKATTN_CU_SEQ_Q, 0, count, 0, offsetof(SequencesPush, cuQBase));
    d.operands[2] = arrayOperand(VKATTN_CU_SEQ_K, 0, count, 0, offsetof(SequencesPush, cuKBase));
    d.operands[3] = standIn(d.operands[1]);
    d.key = {Stage::sequences, {plan.tuning.sequenceLanes, plan.tuning.sequenceLanes}};
    d.groups[0] = d.groups[1] = d.groups[2] = 1;
}

void makeSinks(const Plan &plan, const Chunk &c, Dispatch &d) {
    Chunk column = c; // behind the scores
    column.keyFirst = plan.rowPitch - 1;
    column.keys = 1;
    SinksPush push{};
    setChunk(push, plan, column);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = headsOperand(VKATTN_SINKS, c, offsetof(SinksPush, base));
    d.operands[2] = d.operands[3] = standIn(d.operands[1]);
    d.key = {Stage::sinks, {plan.tuning.overlayLanes}};
    d.groups[0] = divideUp(c.queries, plan.tuning.overlayLanes);
    d.groups[1] = 1;
}

void makeScores(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(VKATTN_K);
    ScoresPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.groupSize = p.groupSize();
    push.headPhase = c.headFirst % p.groupSize();
    push.headDim = p.headDim;
    push.scale = p.scale;
    push.softcap = p.softcap;
    push.qBatch = stride(q, 0), push.qHead = stride(q, 1), push.qToken = stride(q, 2), push.qDim = stride(q, 3);
    push.kBatch = stride(k, 0), push.kHead = stride(k, 1), push.kToken = stride(k, 2), push.kDim = stride(k, 3);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = rowsOperand(p, VKATTN_Q, c, offsetof(ScoresPush, qBase));
    d.operands[2] = keysOperand(p, VKATTN_K, c, offsetof(ScoresPush, kBase));
    // Not the scores: validation would see a read of them that the next chunk overwrites.
    d.operands[3] = lengthsOperand(plan, c, offsetof(ScoresPush, lengthsBase), d.operands[1]);
    const TileShape &tile = plan.tuning.scores[rowClass(plan, c)];
    d.key = {Stage::scores,
             {tile.invocations(), tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY, type(p, VKATTN_Q), type(p, VKATTN_K),
              p.softcap > 0 ? 1u : 0u}};
    d.groups[0] = divideUp(c.keys, tile.sizeX());
    d.groups[1] = divideUp(c.queries, tile.sizeY());
}

// Bias and masks: a tensor over the pairs.
void makePairsOverlay(const Plan &plan, const Chunk &c, Stage stage, Dispatch &d) {
    const vkattn_role role = stage == Stage::bias ? VKATTN_BIAS : stage == Stage::mask ? VKATTN_MASK : VKATTN_BIT_MASK;
    const Problem &p = plan.problem;
    const Tensor &t = p.tensor(role);
    OverlayPush push{};
    setChunk(push, plan, c);
    push.batchStride = stride(t, 0), push.headStride = stride(t, 1), push.queryStride = stride(t, 2), push.keyStride = stride(t, 3);
    setPush(d, push);
    const uint32_t first = role == VKATTN_BIT_MASK ? c.keyFirst / 32 : c.keyFirst;
    const uint32_t count = role == VKATTN_BIT_MASK ? divideUp(c.keyFirst + c.keys, 32) - first : c.keys;
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = pairsOperand(p, role, c, first, count, offsetof(OverlayPush, base));
    d.operands[2] = d.operands[3] = unused(plan);
    d.key = {stage, {plan.tuning.overlayLanes, plan.tuning.overlayKeysPerLane}};
    if (role == VKATTN_BIAS) d.key = {stage, {plan.tuning.overlayLanes, plan.tuning.overlayKeysPerLane, type(p, role)}};
}

void makeAlibi(const Plan &plan, const Chunk &c, Dispatch &d) {
    AlibiPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = headsOperand(VKATTN_ALIBI_SLOPES, c, offsetof(AlibiPush, base));
    d.operands[2] = lengthsOperand(plan, c, offsetof(AlibiPush, lengthsBase), d.operands[1]);
    d.operands[3] = unused(plan);
    d.key = {Stage::alibi, {plan.tuning.overlayLanes, plan.tuning.overlayKeysPerLane}};
}

void makeDocuments(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    DocumentsPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.idsQBatch = p.ragged() ? 0 : p.queryTokens;
    push.idsKBatch = p.ragged() ? 0 : p.keyTokens;
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = documentsOperand(p, VKATTN_DOC_IDS_Q, c, p.queryTokens, c.queryFirst, c.queries, offsetof(DocumentsPush, idsQBase));
    d.operands[2] = documentsOperand(p, VKATTN_DOC_IDS_K, c, p.keyTokens, c.keyFirst, c.keys, offsetof(DocumentsPush, idsKBase));
    d.operands[3] = lengthsOperand(plan, c, offsetof(DocumentsPush, lengthsBase), d.operands[1]);
    d.key = {Stage::documents, {plan.tuning.overlayLanes, plan.tuning.overlayKeysPerLane}};
}

// What changes the scores, in the formula's order.
constexpr Stage overlays[] = {Stage::bias, Stage::alibi, Stage::mask, Stage::bitMask, Stage::documents};

bool uses(const Problem &p, Stage overlay) {
    return p.uses(overlay == Stage::bias      ? VKATTN_BIAS
                  : overlay == Stage::alibi   ? VKATTN_ALIBI_SLOPES
                  : overlay == Stage::mask    ? VKATTN_MASK
                  : overlay == Stage::bitMask ? VKATTN_BIT_MASK
                                              : VKATTN_DOC_IDS_Q);
}

void makeOverlay(const Plan &plan, const Chunk &c, uint32_t number, Dispatch &d) {
    for (const Stage stage : overlays) {
        if (!uses(plan.problem, stage) || number--) continue;
        if (stage == Stage::alibi)
            makeAlibi(plan, c, d);
        else if (stage == Stage::documents)
            makeDocuments(plan, c, d);
        else
            makePairsOverlay(plan, c, stage, d);
        break;
    }
    d.groups[0] = divideUp(c.keys, plan.tuning.overlayLanes * plan.tuning.overlayKeysPerLane);
    d.groups[1] = c.queries;
}

void makeSoftmax(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &lse = p.tensor(VKATTN_LSE), &weights = p.tensor(VKATTN_WEIGHTS);
    SoftmaxPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.flags |= (lse.present() ? flagLse : 0) | (weights.present() ? flagWeights : 0) | (p.has(VKATTN_SINKS) ? flagSinks : 0) |
                  (p.deterministic ? flagFixedOrder : 0);
    push.lseBatch = stride(lse, 0), push.lseHead = stride(lse, 1), push.lseToken = stride(lse, 2);
    push.wBatch = stride(weights, 0), push.wHead = stride(weights, 1), push.wToken = stride(weights, 2), push.wKey = stride(weights, 3);
    setPush(d, push);
    const bool writesWeights = weights.present() && p.keyTokens > 0;
    d.operands[0] = scoresOperand(plan, true);
    d.operands[1] = lse.present() ? rowsOperand(p, VKATTN_LSE, c, offsetof(SoftmaxPush, lseBase)) : unused(plan);
    d.operands[2] = writesWeights ? pairsOperand(p, VKATTN_WEIGHTS, c, 0, p.keyTokens, offsetof(SoftmaxPush, wBase)) : unused(plan);
    d.operands[3] = lengthsOperand(plan, c, offsetof(SoftmaxPush, lengthsBase), d.operands[0]);
    const bool longRows = p.keyTokens > maxKeysPerLane * plan.tuning.softmaxLanes[manyRows];
    const uint32_t lanes = plan.tuning.softmaxLanes[longRows ? fewRows : manyRows];
    d.key = {Stage::softmax, {lanes, lanes, type(p, VKATTN_WEIGHTS)}};
    d.groups[0] = c.queries;
    d.groups[1] = 1;
}

void makeValues(const Plan &plan, const Chunk &c, bool firstKeys, bool lastKeys, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &v = p.tensor(VKATTN_V), &out = p.tensor(VKATTN_OUT);
    ValuesPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.flags |= (firstKeys ? flagFirstKeys : 0) | (lastKeys ? flagLastKeys : 0);
    push.groupSize = p.groupSize();
    push.headPhase = c.headFirst % p.groupSize();
    push.valueDim = p.valueDim;
    push.sumsBase = static_cast<uint32_t>(plan.sumsOffset);
    push.vBatch = stride(v, 0), push.vHead = stride(v, 1), push.vToken = stride(v, 2), push.vDim = stride(v, 3);
    push.oBatch = stride(out, 0), push.oHead = stride(out, 1), push.oToken = stride(out, 2), push.oDim = stride(out, 3);
    setPush(d, push);
    d.operands[0] = scoresOperand(plan, !(firstKeys && lastKeys));
    d.operands[1] = p.keyTokens ? keysOperand(p, VKATTN_V, c, offsetof(ValuesPush, vBase)) : unused(plan);
    d.operands[2] = rowsOperand(p, VKATTN_OUT, c, offsetof(ValuesPush, oBase));
    d.operands[3] = lengthsOperand(plan, c, offsetof(ValuesPush, lengthsBase), d.operands[0]);
    const TileClass rows = rowClass(plan, c);
    const TileShape &tile = plan.tuning.values[rows == manyRows && p.valueDim <= plan.tuning.narrowUpTo ? narrow : rows];
    d.key = {Stage::values,
             {tile.invocations(), tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY, type(p, VKATTN_V), type(p, VKATTN_OUT)}};
    d.groups[0] = divideUp(p.valueDim, tile.sizeX());
    d.groups[1] = divideUp(c.queries, tile.sizeY());
}

} // namespace

uint32_t Plan::dispatchesPerRowChunk() const {
    const uint32_t sinks = problem.has(VKATTN_SINKS) ? 1 : 0;
    if (problem.keyTokens == 0) return sinks + 2; // without keys only softmax and values run
    uint32_t passes = 2;                          // scores and values
    for (const Stage stage : overlays) passes += uses(problem, stage) ? 1 : 0;
    return sinks + keyChunks * passes + 1;
}

PipelineSet Plan::pipelines() const {
    PipelineSet set;
    if (dispatchCount == 0) return set;
    const uint32_t setUp = setUpDispatches();
    for (uint32_t n = 0; n < setUp; ++n) set.add(dispatch(n).key);
    // Chunks of rows differ only in how many rows they have: the first has all, the last in query direction may have fewer.
    const uint32_t perRowChunk = dispatchesPerRowChunk();
    for (uint32_t rowChunk = 0; rowChunk < queryChunks; rowChunk += std::max(queryChunks - 1, 1u))
        for (uint32_t n = 0; n < perRowChunk; ++n) set.add(dispatch(setUp + rowChunk * perRowChunk + n).key);
    return set;
}

uint64_t Plan::storageDescriptorCount() const {
    return uint64_t{dispatchCount} * stagedOperands;
}

Dispatch Plan::dispatch(uint32_t index) const {
    const Problem &p = problem;
    Dispatch d{};
    d.operandCount = stagedOperands;
    const uint32_t setUp = setUpDispatches();
    if (index < setUp) {
        makeSequences(*this, d);
        return d;
    }
    const uint32_t keyedChunks = p.keyTokens ? keyChunks : 0;
    const uint32_t valuesChunks = std::max(keyedChunks, 1u);
    const uint32_t perRowChunk = dispatchesPerRowChunk(), softmaxAt = perRowChunk - 1 - valuesChunks;
    const uint32_t sinks = p.has(VKATTN_SINKS) ? 1 : 0;
    const uint32_t rowChunk = (index - setUp) / perRowChunk, step = (index - setUp) % perRowChunk;

    Chunk c{};
    c.queryFirst = rowChunk % queryChunks * chunkQueries;
    c.headFirst = rowChunk / queryChunks % headChunks * chunkHeads;
    c.batchFirst = rowChunk / queryChunks / headChunks * chunkBatches;
    c.queries = std::min(chunkQueries, p.queryTokens - c.queryFirst);
    c.heads = std::min(chunkHeads, p.heads - c.headFirst);
    c.batches = std::min(chunkBatches, p.batch - c.batchFirst);
    const auto selectKeys = [&](uint32_t n) {
        c.keyFirst = n * chunkKeys;
        c.keys = p.keyTokens ? std::min(chunkKeys, p.keyTokens - c.keyFirst) : 0;
    };

    d.groups[2] = c.batches * c.heads;
    if (step < sinks) {
        makeSinks(*this, c, d);
        d.barrierBefore = index > 0;
    } else if (step < softmaxAt) {
        const uint32_t pass = (step - sinks) / keyedChunks, n = (step - sinks) % keyedChunks;
        selectKeys(n);
        if (pass == 0)
            makeScores(*this, c, d);
        else
            makeOverlay(*this, c, pass - 1, d);
        d.barrierBefore = n == 0 && index > 0 && (pass > 0 || sinks == 0); // the sinks and the scores touch different columns
    } else if (step == softmaxAt) {
        c.keys = p.keyTokens;
        makeSoftmax(*this, c, d);
        d.barrierBefore = index > 0;
    } else {
        const uint32_t n = step - softmaxAt - 1;
        selectKeys(n);
        makeValues(*this, c, n == 0, n + 1 == valuesChunks, d);
        d.barrierBefore = true;
    }
    return d;
}

vkattn_result stagedSupported(const Caps &caps, vkattn_diagnostic *why) {
    const Caps floor = minimumCaps();
    const struct {
        const char *name;
        uint32_t has, needs;
    } limits[] = {{"maxPerStageDescriptorStorageBuffers", caps.maxStorageBuffersPerStage, floor.maxStorageBuffersPerStage},
                  {"maxPushConstantsSize", caps.maxPushConstantsBytes, floor.maxPushConstantsBytes},
                  {"maxComputeWorkGroupInvocations", caps.maxWorkgroupInvocations, floor.maxWorkgroupInvocations},
                  {"maxComputeWorkGroupSize[0]", caps.maxWorkgroupSize[0], floor.maxWorkgroupSize[0]},
                  {"maxComputeSharedMemorySize", caps.maxSharedMemoryBytes, floor.maxSharedMemoryBytes}};
    for (const auto &limit : limits)
        if (limit.has < limit.needs)
            return fail(why, VKATTN_ERROR_UNSUPPORTED, "the device's %s is %u; the staged kernel needs %u, the Vulkan 1.0 minimum",
                        limit.name, limit.has, limit.needs);
    return VKATTN_OK;
}

} // namespace vkattn
