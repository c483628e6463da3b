// The dispatches of the staged path: per chunk of rows, scores (bias, mask) for each chunk of keys, softmax, values for each chunk of keys.
// Order, per chunk of rows with n chunks of keys:  scores x n | bias x n | mask x n | softmax | values | values | ...
// with a barrier at every bar; the n dispatches between bars touch disjoint columns of the workspace.
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

Operand tensorOperand(const Problem &p, vkattn_role role, const Box &box, size_t basePushByte) {
    const Tensor &t = p.tensor(role);
    const ByteRange range = t.span(box);
    const uint64_t size = elementBytes(t.dtype);
    uint64_t first[4];
    for (int d = 0; d < 4; ++d) first[d] = t.extent[d] == 1 ? 0 : box.first[d]; // broadcast
    return {role,
            range.begin,
            range.end,
            t.index(first[0], first[1], first[2], first[3]) * size,
            static_cast<uint32_t>(basePushByte / 4),
            static_cast<uint32_t>(size),
            isOutput(role)};
}

Operand workspaceOperand(const Plan &plan, bool writes) {
    return {VKATTN_WORKSPACE, 0, plan.workspaceBytes, 0, noPushWord, 4, writes};
}

// Every binding of every pipeline must be valid; an unused one shows something else of the same dispatch and is not accessed.
Operand unused(const Plan &plan) {
    return workspaceOperand(plan, false);
}

Operand lengthsOperand(const Plan &plan, const Chunk &c, size_t basePushByte, const Operand &standIn) {
    if (!plan.problem.has(VKATTN_KEY_LENGTHS)) {
        Operand operand = standIn;
        operand.basePushWord = noPushWord;
        operand.writes = false;
        return operand;
    }
    const uint64_t begin = 4ull * c.batchFirst;
    return {VKATTN_KEY_LENGTHS, begin, begin + 4ull * c.batches, begin, static_cast<uint32_t>(basePushByte / 4), 4, false};
}

uint32_t stride(const Tensor &t, int d) {
    return static_cast<uint32_t>(t.stride[d]);
} // modulo 2^32, as interop.h says

template <class Push> void setPosition(Push &push, const Plan &plan, const Chunk &c) {
    const Problem &p = plan.problem;
    push.flags = (p.topLeft ? flagTopLeft : 0) | (p.has(VKATTN_KEY_LENGTHS) ? flagKeyLengths : 0);
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

uint32_t half(const Problem &p, vkattn_role role) {
    return p.tensor(role).dtype == VKATTN_F16;
}
TileClass rowClass(const Plan &plan, const Chunk &c) {
    return c.queries < plan.tuning.fewRowsBelow ? fewRows : manyRows;
}

Box rowsBox(const Chunk &c, uint32_t dim) {
    return {{c.batchFirst, c.headFirst, c.queryFirst, 0}, {c.batches, c.heads, c.queries, dim}};
}
Box pairsBox(const Chunk &c) {
    return {{c.batchFirst, c.headFirst, c.queryFirst, c.keyFirst}, {c.batches, c.heads, c.queries, c.keys}};
}
Box keysBox(const Problem &p, const Chunk &c, uint32_t dim) {
    const uint32_t first = c.headFirst / p.groupSize(), last = (c.headFirst + c.heads - 1) / p.groupSize();
    return {{c.batchFirst, first, c.keyFirst, 0}, {c.batches, last - first + 1, c.keys, dim}};
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
    d.operands[0] = workspaceOperand(plan, true);
    d.operands[1] = tensorOperand(p, VKATTN_Q, rowsBox(c, p.headDim), offsetof(ScoresPush, qBase));
    d.operands[2] = tensorOperand(p, VKATTN_K, keysBox(p, c, p.headDim), offsetof(ScoresPush, kBase));
    // Not the workspace: validation would see a read of it that the next chunk's scores overwrite.
    d.operands[3] = lengthsOperand(plan, c, offsetof(ScoresPush, lengthsBase), d.operands[1]);
    const TileShape &tile = plan.tuning.scores[rowClass(plan, c)];
    d.key = {Stage::scores,
             {tile.invocations(), tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY, half(p, VKATTN_Q), half(p, VKATTN_K),
              p.softcap > 0 ? 1u : 0u}};
    d.groups[0] = divideUp(c.keys, tile.sizeX());
    d.groups[1] = divideUp(c.queries, tile.sizeY());
}

void makeOverlay(const Plan &plan, const Chunk &c, vkattn_role role, Dispatch &d) {
    const Tensor &t = plan.problem.tensor(role);
    OverlayPush push{};
    setChunk(push, plan, c);
    push.batchStride = stride(t, 0), push.headStride = stride(t, 1), push.queryStride = stride(t, 2), push.keyStride = stride(t, 3);
    setPush(d, push);
    d.operands[0] = workspaceOperand(plan, true);
    d.operands[1] = tensorOperand(plan.problem, role, pairsBox(c), offsetof(OverlayPush, base));
    d.operands[2] = d.operands[3] = unused(plan);
    const StagedTuning &tuning = plan.tuning;
    if (role == VKATTN_BIAS)
        d.key = {Stage::bias, {tuning.overlayLanes, tuning.overlayKeysPerLane, half(plan.problem, role)}};
    else
        d.key = {Stage::mask, {tuning.overlayLanes, tuning.overlayKeysPerLane}};
    d.groups[0] = divideUp(c.keys, tuning.overlayLanes * tuning.overlayKeysPerLane);
    d.groups[1] = c.queries;
}

void makeSoftmax(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &lse = p.tensor(VKATTN_LSE), &weights = p.tensor(VKATTN_WEIGHTS);
    SoftmaxPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.flags |= (lse.present() ? flagLse : 0) | (weights.present() ? flagWeights : 0);
    push.lseBatch = stride(lse, 0), push.lseHead = stride(lse, 1), push.lseToken = stride(lse, 2);
    push.wBatch = stride(weights, 0), push.wHead = stride(weights, 1), push.wToken = stride(weights, 2), push.wKey = stride(weights, 3);
    setPush(d, push);
    const bool writesWeights = weights.present() && p.keyTokens > 0;
    d.operands[0] = workspaceOperand(plan, true);
    d.operands[1] = lse.present() ? tensorOperand(p, VKATTN_LSE, rowsBox(c, 1), offsetof(SoftmaxPush, lseBase)) : unused(plan);
    d.operands[2] = writesWeights ? tensorOperand(p, VKATTN_WEIGHTS, rowsBox(c, p.keyTokens), offsetof(SoftmaxPush, wBase)) : unused(plan);
    d.operands[3] = lengthsOperand(plan, c, offsetof(SoftmaxPush, lengthsBase), d.operands[0]);
    const bool longRows = p.keyTokens > maxKeysPerLane * plan.tuning.softmaxLanes[manyRows];
    const uint32_t lanes = plan.tuning.softmaxLanes[longRows ? fewRows : manyRows];
    d.key = {Stage::softmax, {lanes, lanes, half(p, VKATTN_WEIGHTS)}};
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
    d.operands[0] = workspaceOperand(plan, !(firstKeys && lastKeys));
    d.operands[1] = p.keyTokens ? tensorOperand(p, VKATTN_V, keysBox(p, c, p.valueDim), offsetof(ValuesPush, vBase)) : unused(plan);
    d.operands[2] = tensorOperand(p, VKATTN_OUT, rowsBox(c, p.valueDim), offsetof(ValuesPush, oBase));
    d.operands[3] = lengthsOperand(plan, c, offsetof(ValuesPush, lengthsBase), d.operands[0]);
    const TileClass rows = rowClass(plan, c);
    const TileShape &tile = plan.tuning.values[rows == manyRows && p.valueDim <= plan.tuning.narrowUpTo ? narrow : rows];
    d.key = {Stage::values,
             {tile.invocations(), tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY, half(p, VKATTN_V), half(p, VKATTN_OUT)}};
    d.groups[0] = divideUp(p.valueDim, tile.sizeX());
    d.groups[1] = divideUp(c.queries, tile.sizeY());
}

} // namespace

uint32_t Plan::dispatchesPerRowChunk() const {
    if (problem.keyTokens == 0) return 2; // without keys only softmax and values run
    const uint32_t overlays = (problem.uses(VKATTN_BIAS) ? 1u : 0u) + (problem.uses(VKATTN_MASK) ? 1u : 0u);
    return keyChunks * (2 + overlays) + 1;
}

PipelineSet Plan::pipelines() const {
    PipelineSet set;
    if (dispatchCount == 0) return set;
    // Chunks of rows differ only in how many rows they have: the first has all, the last in query direction may have fewer.
    const uint32_t perRowChunk = dispatchesPerRowChunk();
    for (uint32_t rowChunk = 0; rowChunk < queryChunks; rowChunk += std::max(queryChunks - 1, 1u))
        for (uint32_t n = 0; n < perRowChunk; ++n) set.add(dispatch(rowChunk * perRowChunk + n).key);
    return set;
}

uint64_t Plan::storageDescriptorCount() const {
    return uint64_t{dispatchCount} * stagedOperands;
}

Dispatch Plan::dispatch(uint32_t index) const {
    const Problem &p = problem;
    const bool withBias = p.uses(VKATTN_BIAS);
    const uint32_t keyedChunks = p.keyTokens ? keyChunks : 0;
    const uint32_t valuesChunks = std::max(keyedChunks, 1u);
    const uint32_t perRowChunk = dispatchesPerRowChunk(), softmaxAt = perRowChunk - 1 - valuesChunks;
    const uint32_t rowChunk = index / perRowChunk, step = index % perRowChunk;

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

    Dispatch d{};
    d.operandCount = stagedOperands;
    d.groups[2] = c.batches * c.heads;
    if (step < softmaxAt) {
        const uint32_t pass = step / keyedChunks;
        selectKeys(step % keyedChunks);
        if (pass == 0)
            makeScores(*this, c, d);
        else
            makeOverlay(*this, c, pass == 1 && withBias ? VKATTN_BIAS : VKATTN_MASK, d);
        d.barrierBefore = step % keyedChunks == 0 && index > 0;
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
