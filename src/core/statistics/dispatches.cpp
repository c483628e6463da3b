// The dispatches of statistics. Once a plan: the table of sequences of a ragged batch, and the environment.
// Then, for each chunk of heads: | rows of each chunk of rows and keys | ... | the same for the density | ... |
// the count of rows that see a key | keys of each chunk of rows and keys | ..., with a barrier at every bar.
#include "core/kernels/flash.hpp"
#include "core/statistics/statistics_plan.hpp"

#include <algorithm>

namespace vkattn {
namespace {

static_assert(sizeof(StatisticsEnvironment) == 4 * statisticsEnvironmentWords);
static_assert(offsetof(StatisticsPush, idsKBase) == offsetof(FlashPush, idsKBase), "statistics have bases where the forward pass has");
static_assert(statisticColumns == VKATTN_STATISTIC_COUNT && columnDensity == VKATTN_STATISTIC_DENSITY &&
              columnLocality == VKATTN_STATISTIC_LOCALITY && columnVisible == VKATTN_STATISTIC_VISIBLE);

// What the rows of a chunk of heads leave. All rows of the heads are bound: every chunk of keys needs them.
Operand scalesOperand(const StatisticsPlan &plan, const Chunk &c, size_t basePushByte) {
    const uint64_t begin = plan.forward.setUpBytes, bytes = statistics::scaleBytes(plan.problem(), uint64_t{c.batches} * c.heads);
    return {VKATTN_WORKSPACE, begin, begin + bytes, begin, static_cast<uint32_t>(basePushByte / 4), 4, true};
}

StatisticsEnvironment environmentOf(const StatisticsPlan &plan) {
    const Problem &p = plan.problem();
    const Statistics &s = plan.statistics;
    Environment forward{};
    setReach(forward, p);
    forward.dims = p.headDim;
    flash::setOptionWords(forward, p);
    StatisticsEnvironment e{};
    std::memcpy(&e, &forward, sizeof forward);
    e.columnStrides = passStrides(s.statistics);
    e.receivedStrides = passStrides(s.received);
    e.topWeightStrides = passStrides(s.topWeights);
    e.topKeyStrides = passStrides(s.topKeys);
    e.densityThreshold = s.densityThreshold;
    return e;
}

// An output of the chunk's rows or keys.
Operand outputOperand(const StatisticsPlan &plan, vkattn_role role, const Chunk &c, size_t basePushByte) {
    const TokenRange keys = {c.headFirst, c.heads, c.keyFirst, c.keys};
    return tokensOperand(plan.statistics.tensor(role), role, true, plan.problem().ragged(), c,
                         role == VKATTN_RECEIVED ? keys : rowTokens(c), basePushByte);
}

void makePass(const StatisticsPlan &plan, const Chunk &c, StatisticsStep step, uint32_t order, Dispatch &d) {
    const Problem &p = plan.problem();
    const Statistics &s = plan.statistics;
    const bool keys = step == StatisticsStep::keys;
    const TiledPass &pass = keys ? plan.keys : plan.rows;
    const PassTile &tile = pass.tile;
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(VKATTN_K);
    StatisticsPush push{};
    push.queryFirst = c.queryFirst;
    push.queries = c.queries;
    push.keyFirst = c.keyFirst;
    push.keys = c.keys;
    push.headsAndPacked = c.heads | 1u << 16;
    push.groupAndPhase = p.groupSize() | c.headFirst % p.groupSize() << 16;
    push.scale = p.scale;
    push.qBatch = stride(q, 0), push.qHead = stride(q, 1), push.qToken = stride(q, 2);
    push.kBatch = stride(k, 0), push.kHead = stride(k, 1), push.kToken = stride(k, 2);
    push.headFirst = c.headFirst;
    push.order = order;
    setPush(d, push);

    d.operandCount = gradientSlots;
    const Operand environment = flash::environmentOperand(plan.forward, sizeof(StatisticsEnvironment), false);
    std::fill(d.operands, d.operands + gradientSlots, standIn(environment));
    d.operands[slotEnvironment] = environment;
    const bool pairs = c.queries != 0 && c.keys != 0;
    if (c.queries) d.operands[slotQ] = rowsOperand(p, VKATTN_Q, c, offsetof(StatisticsPush, qBase));
    if (c.keys) d.operands[slotK] = keysOperand(p, VKATTN_K, c, offsetof(StatisticsPush, kBase));
    d.operands[slotLengths] = lengthsOperand(plan.forward, c, offsetof(StatisticsPush, lengthsBase), environment);
    d.operands[slotRowScales] = scalesOperand(plan, c, offsetof(StatisticsPush, lseBase));
    for (const PairTermOperand &each : pairTermOperands)
        if (pairs && each.slot != noSlot && p.uses(each.role)) d.operands[each.slot] = chunkOperand(p, each.role, c, each.base);
    const vkattn_role output = keys ? VKATTN_RECEIVED : VKATTN_STATISTICS;
    const bool writes = (keys ? c.keys : c.queries) != 0; // an output without elements may be bound to nothing
    // Shaders write these bindings, and a validation layer cannot see that this dispatch does not.
    const Operand written = standIn(d.operands[slotRowScales]);
    d.operands[slotStatistics] = writes && s.uses(output) ? outputOperand(plan, output, c, offsetof(StatisticsPush, oBase)) : written;
    d.operands[slotTopWeights] = d.operands[slotTopKeys] = written;
    const bool top = step == StatisticsStep::rows && s.topCount() > 0;
    if (writes && top) {
        d.operands[slotTopWeights] = outputOperand(plan, VKATTN_TOP_WEIGHTS, c, offsetof(StatisticsPush, topWeightsBase));
        d.operands[slotTopKeys] = outputOperand(plan, VKATTN_TOP_KEYS, c, offsetof(StatisticsPush, topKeysBase));
    }

    const bool exact = tile.dimLanes * pass.dimsPerLane == p.headDim;
    const bool columns = step == StatisticsStep::rows && s.uses(VKATTN_STATISTICS);
    const uint32_t listed = step == StatisticsStep::rows ? plan.topListed : 0;
    d.groups[0] = std::max(divideUp(keys ? c.keys : c.queries, tile.owned()), 1u);
    d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
    const Module modules[2][2] = {{Module::statisticsRows, Module::statisticsKeys},
                                  {Module::statisticsRowsPlain, Module::statisticsKeysPlain}};
    d.key = pipelineKey(modules[plan.plain][keys], tile.invocations(),
                        {.kvFormat = elementType(p, VKATTN_K) | pass.dimOrder << formatDimOrder,
                         .pairTerms = plan.pairTerms,
                         .elementTypes = elementType(p, VKATTN_Q),
                         .form = (exact ? formExactDims : 0) | (tile.rolledEdges ? formRolledEdges : 0) | tile.source << formSource |
                                 (columns ? formStatistics : 0) | (step == StatisticsStep::density ? formDensity : 0) |
                                 (columns && plan.densityOfTop ? formDensityOfTop : 0) | plan.forward.orderForm},
                        {tile.dimLanes, tile.ownerLanes, tile.ownedPerLane, tile.stepItems, pass.dimsPerLane, top ? s.topCount() : 0,
                         tile.tileItems, plan.shuffleLanes, pass.run, listed});
}

void makeCount(const StatisticsPlan &plan, const Chunk &c, Dispatch &d) {
    SeeingRowsPush push{};
    push.rows = plan.problem().queryTokens;
    setPush(d, push);
    d.operandCount = plainSlots;
    d.operands[slotWorkspace] = scalesOperand(plan, c, offsetof(SeeingRowsPush, scalesBase));
    std::fill(d.operands + slotFirst, d.operands + plainSlots, standIn(d.operands[slotWorkspace]));
    d.key = pipelineKey(Module::seeingRows, statistics::countLanes, {}, {statistics::countLanes});
    d.groups[0] = d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
}

} // namespace

uint64_t statistics::scaleBytes(const Problem &p, uint64_t heads) {
    return 4 * rowScaleWords * heads * (uint64_t{p.queryTokens} + 1);
}

uint32_t StatisticsPlan::perHeadChunk() const {
    return stepCount * pairChunks() + (countsRows() ? 1 : 0);
}

uint32_t statistics::firstDispatch(const StatisticsPlan &plan, uint32_t unit) {
    if (unit == 0) return 0;
    const uint32_t perHeadChunk = plan.stepCount * plan.pairChunks(), local = unit % perHeadChunk;
    // The count of rows lies with the first unit of keys.
    const bool counted = plan.countsRows() && local > (plan.stepCount - 1) * plan.pairChunks();
    return plan.forward.setUpDispatches + unit / perHeadChunk * plan.perHeadChunk() + local + (counted ? 1 : 0);
}

Dispatch statistics::dispatch(const StatisticsPlan &plan, uint32_t index) {
    Dispatch d;
    d.operandCount = plainSlots;
    const Problem &p = plan.problem();
    const Plan &forward = plan.forward;
    const uint32_t setUp = forward.setUpDispatches;
    if (index < setUp) {
        flash::makeSetUp(forward, sizeof(StatisticsEnvironment), flash::wordsOf<statisticsEnvironmentWords>(environmentOf(plan)),
                         Module::statisticsEnvironment, index, d);
        return d;
    }
    const uint32_t perHeadChunk = plan.perHeadChunk(), pairChunks = plan.pairChunks();
    const uint32_t headChunk = (index - setUp) / perHeadChunk;
    uint32_t local = (index - setUp) % perHeadChunk;
    // All dispatches read or write the scales of rows, and outputs of chunks may lie among each other.
    d.barrierBefore = true;
    Chunk c = rowsOfChunk(forward, headChunk * forward.queryChunks);
    const uint32_t keysFrom = (plan.stepCount - 1) * pairChunks;
    if (plan.countsRows() && local == keysFrom) {
        makeCount(plan, c, d);
        return d;
    }
    if (plan.countsRows() && local > keysFrom) --local;
    const StatisticsStep step = plan.steps[local / pairChunks];
    const uint32_t queryChunk = local % pairChunks / forward.keyChunks, keyChunk = local % forward.keyChunks;
    c = rowsOfChunk(forward, headChunk * forward.queryChunks + queryChunk);
    c.keyFirst = keyChunk * forward.chunkKeys;
    c.keys = std::min(forward.chunkKeys, p.keyTokens - c.keyFirst);
    // Rows go over chunks of keys, and keys over chunks of rows.
    const uint32_t number = step == StatisticsStep::keys ? queryChunk : keyChunk;
    const uint32_t last = (step == StatisticsStep::keys ? forward.queryChunks : forward.keyChunks) - 1;
    makePass(plan, c, step, (number == 0 ? orderFirst : 0) | (number == last ? orderLast : 0), d);
    return d;
}

PipelineSet statistics::pipelines(const StatisticsPlan &plan) {
    PipelineSet set;
    if (plan.dispatchCount == 0) return set;
    // The dispatches of a step are alike.
    const uint32_t setUp = plan.forward.setUpDispatches;
    for (uint32_t n = 0; n < setUp; ++n) set.add(dispatch(plan, n).key);
    for (uint32_t step = 0; step < plan.stepCount; ++step) set.add(dispatch(plan, setUp + step * plan.pairChunks()).key);
    set.add(dispatch(plan, setUp + plan.perHeadChunk() - 1).key);
    return set;
}

} // namespace vkattn
