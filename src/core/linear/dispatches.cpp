// The dispatches of linear attention: the environment; then, of some batch entries at a time, spans of chunks.
#include "core/kernels/flash.hpp"
#include "core/linear/linear_form.hpp"
#include "core/linear/linear_plan.hpp"

#include <algorithm>
#include <utility>

namespace vkattn {
namespace {

enum class Stage { mapKeys, mapRows, normalize, prepare, scan, token };

// Some chunks of some batch entries.
struct SpanOfChunks {
    uint32_t batchFirst, batches, headPart;
    bool reading;
    uint32_t chunkFirst, chunks;
    bool first, last; // of the spans of keys
};

SpanOfChunks spanOf(const LinearPlan &plan, uint32_t step, uint32_t number) {
    SpanOfChunks span{};
    span.batchFirst = step / plan.headParts * plan.batches, span.headPart = step % plan.headParts;
    span.batches = std::min(plan.batches, plan.linear.batch - span.batchFirst);
    span.reading = number >= plan.keySpans;
    const uint32_t within = span.reading ? number - plan.keySpans : number, all = span.reading ? plan.rowChunks : plan.keyChunks;
    span.chunkFirst = within * plan.spanChunks;
    span.chunks = std::min(plan.spanChunks, all - span.chunkFirst);
    span.first = !span.reading && number == 0;
    span.last = !span.reading && number + 1 == plan.keySpans;
    return span;
}

Stage stageOf(const LinearPlan &plan, const SpanOfChunks &span, uint32_t index) {
    if (plan.singleToken()) return Stage::token;
    Stage stages[5];
    uint32_t count = 0;
    if (plan.storesFeatures() && !span.reading) stages[count++] = Stage::mapKeys;
    if (plan.storesFeatures() && (span.reading || plan.readsInChunks())) stages[count++] = Stage::mapRows;
    if (plan.mapped() && !span.reading) stages[count++] = Stage::normalize;
    stages[count++] = Stage::prepare;
    stages[count++] = Stage::scan;
    return stages[index];
}

struct Slot {
    vkattn_role role;
    uint32_t slot, operand; // operand: its place in the environment
    size_t base;
};
constexpr Slot slots[] = {
    {VKATTN_Q, slotLinearQ, linearQ, offsetof(LinearPush, qBase)},
    {VKATTN_K, slotLinearK, linearK, offsetof(LinearPush, kBase)},
    {VKATTN_V, slotLinearV, linearV, offsetof(LinearPush, vBase)},
    {VKATTN_OUT, slotLinearOut, linearOut, offsetof(LinearPush, oBase)},
    {VKATTN_STATE_IN, slotLinearStateIn, linearStateIn, offsetof(LinearPush, stateInBase)},
    {VKATTN_STATE_OUT, slotLinearStateOut, linearStateOut, offsetof(LinearPush, stateOutBase)},
    {VKATTN_SNAPSHOTS, slotLinearSnapshots, linearSnapshots, offsetof(LinearPush, snapshotsBase)},
    {VKATTN_DECAY, slotLinearDecay, linearDecay, offsetof(LinearPush, decayBase)},
    {VKATTN_OMEGA, slotLinearDecay, linearOmega, offsetof(LinearPush, decayBase)},
    {VKATTN_WRITE_STRENGTH, slotLinearStrength, linearStrength, offsetof(LinearPush, strengthBase)},
};

// What a stage reads and writes beside the workspace.
uint32_t rolesOf(Stage stage, const LinearPlan &plan, const SpanOfChunks &span) {
    const auto bit = [](vkattn_role role) {
        for (const Slot &each : slots)
            if (each.role == role) return 1u << each.operand;
        return 0u;
    };
    const bool rows = span.reading || plan.readsInChunks();
    const uint32_t ofRows = rows ? bit(VKATTN_Q) : 0;
    switch (stage) {
    case Stage::mapKeys:
        return bit(VKATTN_K) | bit(VKATTN_OMEGA);
    case Stage::mapRows:
        return bit(VKATTN_Q) | bit(VKATTN_OMEGA);
    case Stage::normalize:
        return (plan.storesFeatures() ? 0 : bit(VKATTN_K)) | bit(VKATTN_STATE_IN) | bit(VKATTN_STATE_OUT) | bit(VKATTN_SNAPSHOTS);
    case Stage::prepare:
        return plan.storesFeatures() ? 0 : span.reading ? ofRows : ofRows | bit(VKATTN_K) | bit(VKATTN_DECAY) | bit(VKATTN_WRITE_STRENGTH);
    case Stage::token:
        return ofRows | (rows ? bit(VKATTN_OUT) : 0) | bit(VKATTN_K) | bit(VKATTN_V) | bit(VKATTN_DECAY) | bit(VKATTN_WRITE_STRENGTH) |
               bit(VKATTN_STATE_IN) | bit(VKATTN_STATE_OUT);
    case Stage::scan:
        break;
    }
    const uint32_t outputs = rows ? bit(VKATTN_OUT) : 0;
    if (span.reading) return outputs | (plan.storesFeatures() ? 0 : ofRows);
    return outputs | (plan.storesFeatures() ? 0 : ofRows | bit(VKATTN_K)) | bit(VKATTN_V) | bit(VKATTN_STATE_IN) | bit(VKATTN_STATE_OUT) |
           bit(VKATTN_SNAPSHOTS);
}

Operand operandOf(const LinearPlan &plan, const Slot &each, const SpanOfChunks &span) {
    const Tensor &t = plan.linear.tensor(each.role);
    const uint32_t *e = t.extent;
    const linear::HeadRange heads = linear::headsOfPart(plan.linear, e[1], span.headPart, plan.headParts);
    return tensorOperand(t, each.role, findLinearOperand(each.role)->output,
                         {{span.batchFirst, heads.first, 0, 0}, {span.batches, heads.count, e[2], e[3]}},
                         {span.batchFirst, heads.first, 0, 0}, each.base);
}

LinearPush pushOf(const LinearPlan &plan, const SpanOfChunks &span) {
    const LinearAttention &a = plan.linear;
    LinearPush push{};
    push.chunkFirst = span.chunkFirst, push.chunks = span.chunks;
    const bool done = span.last && plan.rowSpans == 0;
    push.span = (span.first ? spanFirst : 0) | (span.last ? spanLast : 0) | (done ? 0 : spanKeeps);
    push.keyTokens = a.keyTokens, push.queryTokens = a.queryTokens;
    push.keyDim = a.keyDim, push.valueDim = a.valueDim;
    push.rows = a.stateRows;
    push.rowPitch = plan.rowPitch, push.columnPitch = plan.columnPitch;
    push.snapshotTokens = plan.snapshotTokens, push.chunksPerSnapshot = plan.chunksPerSnapshot;
    push.heads = a.heads / plan.headParts, push.stateHeads = plan.headsOfPart();
    push.scale = scaleOfRows(a);
    push.epsilon = a.epsilon;
    push.stateBase = static_cast<uint32_t>(plan.stateBegin / 4);
    push.chunksBase = static_cast<uint32_t>(plan.chunksBegin / 4);
    push.chunkWords = plan.block.words;
    push.readAt = plan.block.read, push.factorAt = plan.block.factors, push.keysToEndAt = plan.block.keysToEnd;
    return push;
}

void makeStage(const LinearPlan &plan, const SpanOfChunks &span, Stage stage, Dispatch &d) {
    const LinearAttention &a = plan.linear;
    const LinearTile &tile = plan.tile;
    setPush(d, pushOf(plan, span));
    d.operandCount = fullSlots;
    Operand whole{VKATTN_WORKSPACE, 0, plan.workspaceBytes, 0, noPushWord, 4, true};
    std::fill(d.operands, d.operands + fullSlots, standIn(whole));
    d.operands[slotWorkspace] = whole;
    const uint32_t used = rolesOf(stage, plan, span);
    for (const Slot &each : slots)
        if ((used >> each.operand & 1u) && a.bytesUsed(each.role).size() > 0) d.operands[each.slot] = operandOf(plan, each, span);
    if (a.has(VKATTN_KEY_LENGTHS))
        d.operands[slotLinearLengths] =
            arrayOperand(VKATTN_KEY_LENGTHS, span.batchFirst, span.batches, span.batchFirst, offsetof(LinearPush, lengthsBase));

    const auto type = [&](vkattn_role role) { return static_cast<uint32_t>(a.tensor(role).dtype); };
    ConceptConstants constants{};
    constants.elementTypes = type(VKATTN_Q) | type(VKATTN_OUT) << typesOut | type(VKATTN_K) << typesLinearK |
                             type(VKATTN_V) << typesLinearV | type(VKATTN_DECAY) << typesLinearDecay |
                             type(VKATTN_WRITE_STRENGTH) << typesLinearStrength;
    constants.form = plan.form | (span.reading ? formLinearReading : 0) | (stage == Stage::mapRows ? formLinearOfRows : 0);
    const bool scans = stage == Stage::scan || stage == Stage::token;
    if (scans && tile.rowLanes * tile.rowsPerLane == a.stateRows) constants.form |= formLinearWholeRows;
    if (scans && a.valueDim % tile.columns() == 0) constants.form |= formLinearWholeColumns;
    if (stage == Stage::scan && plan.spans() == 1) constants.form |= formLinearOneSpan;
    if (stage == Stage::prepare && tile.wholeSubgroups) constants.form |= formLinearWholeSubgroups;
    if (!span.reading && !plan.readsInChunks()) constants.form &= ~formLinearRows;
    d.groups[1] = plan.headsOfPart(), d.groups[2] = span.batches;
    switch (stage) {
    case Stage::mapKeys:
    case Stage::mapRows:
        d.groups[0] = divideUp(span.chunks, tile.mapChunks) * divideUp(a.randomFeatures(), tile.featureLanes * tile.mapFeatures);
        d.key = pipelineKey(tile.shuffleLanes ? Module::linearMapSubgroups : Module::linearMap, tile.featureLanes, constants,
                            {tile.chunkTokens, tile.shuffleLanes, tile.mapChunks * tile.chunkTokens, tile.mapFeatures});
        return;
    case Stage::normalize:
        d.groups[0] = divideUp(a.stateRows, tile.featureLanes);
        d.key = pipelineKey(Module::linearNormalizer, tile.featureLanes, constants, {tile.chunkTokens});
        return;
    case Stage::prepare:
        d.groups[0] = divideUp(span.chunks, tile.prepareLanes / tile.chunkTokens);
        d.key = pipelineKey(tile.pairsShuffle ? Module::linearPrepareSubgroups : Module::linearPrepare, tile.prepareLanes, constants,
                            {tile.chunkTokens});
        return;
    case Stage::scan:
        d.groups[0] = divideUp(a.valueDim, tile.columns());
        d.key = pipelineKey(tile.shuffleLanes ? Module::linearScanSubgroups : Module::linearScan, tile.lanes(), constants,
                            {tile.chunkTokens, tile.columnLanes, tile.rowLanes, tile.rowsPerLane, tile.columnsPerLane, tile.shuffleLanes,
                             tile.blockTokens, tile.edgeRows});
        return;
    case Stage::token:
        d.groups[0] = divideUp(a.valueDim, tile.columns());
        d.key = pipelineKey(
            tile.shuffleLanes ? Module::linearTokenSubgroups : Module::linearToken, tile.lanes(), constants,
            {tile.chunkTokens, tile.columnLanes, tile.rowLanes, tile.rowsPerLane, tile.columnsPerLane, tile.shuffleLanes, tile.blockRows});
        return;
    }
}

void makeSetUp(const LinearPlan &plan, uint32_t number, Dispatch &d) {
    uint32_t words[linearEnvironmentWords] = {};
    for (const Slot &each : slots) {
        const Tensor &t = plan.linear.tensor(each.role);
        uint32_t *const own = words + size_t{each.operand} * linearOperandWords;
        for (int axis = 0; axis < 4; ++axis) own[axis] = stride(t, axis);
        own[4] = std::max(linear::headsOfPart(plan.linear, t.extent[1], 0, plan.headParts).count, 1u);
    }
    const LinearBlock &block = plan.block;
    words[linearKeysAt] = block.keys, words[linearRowsAt] = block.rows;
    words[linearKeyMapAt] = block.keyMap, words[linearRowMapAt] = block.rowMap;
    words[linearNormAt] = block.norm;
    const Operand whole{VKATTN_WORKSPACE, 0, 4ull * linearEnvironmentWords, 0, noPushWord, 4, true};
    flash::makeWords(whole, words, Module::environment, number, d);
    d.barrierBefore = number > 0;
}

} // namespace

uint32_t linear::firstDispatch(const LinearPlan &plan, uint32_t span) {
    if (span == 0) return 0;
    const uint32_t step = span / plan.spans(), within = span % plan.spans(), ofKeys = std::min(within, plan.keySpans);
    return setUpDispatches + step * plan.perStep() + ofKeys * plan.spanOfKeys() + (within - ofKeys) * plan.spanOfRows();
}

Dispatch linear::dispatch(const LinearPlan &plan, uint32_t index) {
    Dispatch d;
    if (index < setUpDispatches) {
        makeSetUp(plan, index, d);
        return d;
    }
    const uint32_t within = (index - setUpDispatches) % plan.perStep(), step = (index - setUpDispatches) / plan.perStep();
    const uint32_t ofKeys = plan.keySpans * plan.spanOfKeys();
    const bool reading = within >= ofKeys;
    const uint32_t number = reading ? plan.keySpans + (within - ofKeys) / plan.spanOfRows() : within / plan.spanOfKeys();
    const SpanOfChunks span = spanOf(plan, step, number);
    makeStage(plan, span, stageOf(plan, span, reading ? (within - ofKeys) % plan.spanOfRows() : within % plan.spanOfKeys()), d);
    d.barrierBefore = true; // of what the stage before has written, and of the state
    return d;
}

PipelineSet linear::pipelines(const LinearPlan &plan) {
    PipelineSet set;
    if (plan.dispatchCount == 0) return set;
    // Spans of keys are alike, and so are those of rows.
    for (uint32_t n = 0; n < setUpDispatches + plan.spanOfKeys(); ++n) set.add(dispatch(plan, n).key);
    for (uint32_t n = 0; plan.rowSpans && n < plan.spanOfRows(); ++n) set.add(dispatch(plan, firstDispatch(plan, plan.keySpans) + n).key);
    return set;
}

} // namespace vkattn
