#include "core/statistics/statistics_plan.hpp"

#include "core/kernels/flash.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/compile_cost.hpp"
#include "core/plan/work.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

constexpr uint32_t most16Bits = 65535; // halves of push-constant words
// Chunks of keys begin at words of bit masks and at whole steps.
constexpr uint32_t keyTileOfChunks = 64;

constexpr const StatisticsPlan &planOf(const Schedule &schedule) {
    return static_cast<const StatisticsPlan &>(schedule);
}

uint32_t boundOperands(const Schedule &schedule, BoundOperand *out) {
    const Statistics &s = planOf(schedule).statistics;
    uint32_t count = 0;
    const auto add = [&](vkattn_role role, const char *name, bool tensor, bool output) {
        if (s.uses(role)) out[count++] = {role, name, tensor ? &s.tensor(role) : nullptr, s.bytesUsed(role), output};
    };
    for (const OperandRule &rule : operandTable) add(rule.role, rule.name, rule.layout != nullptr, false);
    for (const StatisticsOperand &each : statisticsOperands()) add(each.role, each.name, true, true);
    return count;
}

constexpr ScheduleType statisticsSchedule = {
    .what = "statistics operation",
    .operands = boundOperands,
    .inPlace = nullptr,
    .dispatch = [](const Schedule &schedule, uint32_t index) { return statistics::dispatch(planOf(schedule), index); },
    .pipelines = [](const Schedule &schedule) { return statistics::pipelines(planOf(schedule)); },
    .storageDescriptorCount =
        [](const Schedule &schedule) {
            const StatisticsPlan &plan = planOf(schedule);
            const uint64_t passes = uint64_t{plan.headChunks()} * plan.stepCount * plan.pairChunks();
            return passes * gradientSlots + (plan.dispatchCount - passes) * plainSlots;
        },
    .slice = [](const Schedule &schedule, uint32_t index) { return dispatchesOfSlice(sliceUnits(planOf(schedule)), index); },
    .sliceOf = [](const Schedule &schedule, uint32_t dispatch) { return sliceOfDispatch(sliceUnits(planOf(schedule)), dispatch); },
};

double workBeforeUnit(const Schedule &schedule, uint32_t unit) {
    const StatisticsPlan &plan = planOf(schedule);
    const Plan &forward = plan.forward;
    const uint32_t pairChunks = plan.pairChunks(), perHeadChunk = plan.stepCount * pairChunks, headChunk = unit / perHeadChunk;
    if (headChunk == plan.headChunks()) return plan.stepCount * totalWork(plan.problem());
    const uint32_t local = unit % perHeadChunk, step = local / pairChunks;
    const uint32_t queryChunk = local % pairChunks / forward.keyChunks, keyChunk = local % forward.keyChunks;
    Chunk all = rowsOfChunk(forward, headChunk * forward.queryChunks);
    all.queries = plan.problem().queryTokens;
    const Chunk c = rowsOfChunk(forward, headChunk * forward.queryChunks + queryChunk);
    Chunk before = all;
    before.queries = c.queryFirst;
    return plan.stepCount * workBefore(forward, all) + step * workOf(forward, all) + workOf(forward, before) +
           workOf(forward, c) * keyChunk / forward.keyChunks;
}

uint32_t firstDispatchOf(const Schedule &schedule, uint32_t unit) {
    return statistics::firstDispatch(planOf(schedule), unit);
}

// CPU devices: lanes are items, what passes by comes by one load of neighbouring dims and subgroup
// shuffles. GPUs: lanes share the dims of an item. Steps of two and more: some drivers count rounds of
// loops (core/plan/plan.hpp). Other tiles were not tried, and none is timed on a GPU yet.
GradientTile tileOf(const Caps &caps, bool ownsKeys, uint32_t dim) {
    const bool onCpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const uint32_t lanes = caps.subgroupSize;
    const GradientTile onCpus[] = {{64, 1, lanes, 4, 2, sourceShuffled, 1, caps.subgroupClustered},
                                   {128, 1, lanes, 2, 4, sourceShuffled, 1, caps.subgroupClustered},
                                   {256, 1, lanes, 1, 8, sourceShuffled, 1, caps.subgroupClustered}};
    const GradientTile onGpus[] = {{64, 8, 8, ownsKeys ? 2u : 4u, 2, sourceDirect, 1, 0},
                                   {128, 16, 4, ownsKeys ? 2u : 4u, 2, sourceDirect, 1, 0},
                                   {256, 16, 4, ownsKeys ? 1u : 2u, 2, sourceDirect, 1, 0}};
    for (const GradientTile &each : onCpu ? onCpus : onGpus)
        if (dim <= each.maxDim) return each;
    return {};
}
// A lane has an item alone, and both sides come from memory: any head dim, no subgroups.
GradientTile plainTile(const Caps &caps) {
    const bool onCpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    return {maxDim, 1, std::min(onCpu ? 8u : 64u, caps.maxWorkgroupInvocations), 1, 4, sourceDirect, 1, 0};
}

bool shuffles(const Caps &caps) {
    if (!caps.subgroupShuffle) return false;
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? caps.subgroupSize >= 4 && caps.subgroupSize <= 16 : caps.subgroupSize >= 16;
}

void layOut(const StatisticsPlan &plan, const Tensor &passing, StatisticsPass &pass) {
    const uint32_t dim = plan.problem().headDim;
    if (plan.plain) {
        pass.dimsPerLane = roundUp(dim, plainDims);
        pass.run = 1;
        pass.dimOrder = dimsApart; // elements come one by one
        return;
    }
    pass.dimsPerLane = dimsOfLane(pass.tile, dim, plan.shuffleLanes);
    pass.run = runOf(pass.tile, dim, pass.dimsPerLane, passing.dtype);
    pass.dimOrder = dimOrderOf(passing, pass.run);
}

struct StatisticsLimits {
    const StatisticsPlan &plan;
    const Caps &caps;
    const Problem &p = plan.problem();
    uint32_t rowTile = plan.rows.tile.owned(), keyTile = keyTileOfChunks, headTile = 1;
    uint32_t sliceQueries = rowTile, sliceKeys = 1024;

    [[nodiscard]] bool bindable(uint64_t bytes) const {
        return bytes + caps.minStorageBufferOffsetAlignment + 8 <= caps.maxStorageBufferRange;
    }
    [[nodiscard]] bool tokensFit(vkattn_role role, const ChunkShape &s, uint32_t tokens) const {
        const Tensor &t = plan.statistics.tensor(role);
        if (!t.present()) return true;
        const bool ragged = p.ragged();
        return bindable(t.span({{}, {ragged ? 1 : s.batches, s.heads, ragged ? t.extent[2] : tokens, t.extent[3]}}).size());
    }
    // Rounds of all loops of a lane that so many items pass by. Every item of a step may be among the
    // largest of a row, and a round inserts one into each row.
    [[nodiscard]] bool fewRounds(const StatisticsPass &pass, uint64_t items, uint32_t topCount) const {
        const GradientTile &tile = pass.tile;
        const uint64_t steps = ceilDiv(items, tile.stepItems) + 4, ofTop = topCount ? tile.stepItems + 1 : 0;
        const uint64_t ends = uint64_t{tile.ownedPerLane} * 4;
        if (plan.plain) return steps * (ceilDiv(p.headDim, plainDims) + 2 + ofTop) + ends <= maxKeysPerLane;
        const uint64_t loads = tile.ownedPerLane * (tile.rolledEdges ? uint64_t{pass.dimsPerLane} : pass.dimsPerLane / edgeDims + 4);
        return steps * (1 + ofTop) + loads + ends <= maxKeysPerLane;
    }
    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        return fewRounds(plan.rows, s.keys, plan.topListed) && divideUp(s.keys, plan.keys.tile.owned()) <= caps.maxWorkgroupCount[0] &&
               tokensFit(VKATTN_RECEIVED, s, std::min(s.keys, p.keyTokens));
    }
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        return fewRounds(plan.keys, s.queries, 0) && divideUp(s.queries, plan.rows.tile.owned()) <= caps.maxWorkgroupCount[0] &&
               s.heads <= most16Bits && bindable(workspaceBytes(s)) && tokensFit(VKATTN_STATISTICS, s, s.queries) &&
               tokensFit(VKATTN_TOP_WEIGHTS, s, s.queries) && tokensFit(VKATTN_TOP_KEYS, s, s.queries);
    }
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const { return statistics::scaleBytes(p, uint64_t{s.batches} * s.heads); }
};

vkattn_result unsupported(vkattn_diagnostic *why, const char *reason) {
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "statistics of attention %s", reason);
}

vkattn_result chooseTiles(const Caps &caps, StatisticsPlan &plan, vkattn_diagnostic *why) {
    const Problem &p = plan.problem();
    plan.shuffleLanes = std::max(caps.subgroupSize, 4u);
    plan.rows.tile = tileOf(caps, false, p.headDim);
    plan.keys.tile = tileOf(caps, true, p.headDim);
    const auto fits = [&](const GradientTile &tile) {
        return tile.maxDim && tile.invocations() <= caps.maxWorkgroupInvocations && tile.invocations() <= caps.maxWorkgroupSize[0];
    };
    plan.plain = !shuffles(caps) || !fits(plan.rows.tile) || !fits(plan.keys.tile);
    if (plan.plain) plan.rows.tile = plan.keys.tile = plainTile(caps);
    if (!fits(plan.rows.tile)) return unsupported(why, "need larger workgroups than the device has");
    layOut(plan, p.tensor(VKATTN_K), plan.rows);
    layOut(plan, p.tensor(VKATTN_Q), plan.keys);
    return VKATTN_OK;
}

// How many weights of a row can be above the threshold, and one for rounding; 0 where a list cannot have
// them all. The sum of a row's weights is 1.
uint32_t densityList(const Statistics &s) {
    if (!s.uses(VKATTN_STATISTICS) || s.densityThreshold * VKATTN_MAX_TOP_KEYS <= 1) return 0;
    return static_cast<uint32_t>(1 / static_cast<double>(s.densityThreshold)) + 1;
}

// Where keys come in one chunk, the density takes a list of the largest weights: a step would compute all
// scores again. Between chunks of keys only what is written of the list can be kept.
void chooseSteps(StatisticsPlan &plan, bool keysInOneChunk) {
    const Statistics &s = plan.statistics;
    const uint32_t list = keysInOneChunk ? densityList(s) : 0;
    plan.densityOfTop = list != 0;
    plan.topListed = std::max(list, s.topCount());
    plan.stepCount = 0;
    plan.steps[plan.stepCount++] = StatisticsStep::rows; // what keys receive needs the rows' sums
    if (s.uses(VKATTN_STATISTICS) && s.densityThreshold > 0 && !plan.densityOfTop) plan.steps[plan.stepCount++] = StatisticsStep::density;
    if (plan.countsRows()) plan.steps[plan.stepCount++] = StatisticsStep::keys;
}

} // namespace

vkattn_result planStatistics(const Statistics &given, const PlanLimits &limits, StatisticsPlan &out, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    out = StatisticsPlan{};
    out.type = &statisticsSchedule;
    out.kernelName = "statistics";
    out.zone = "vkattn statistics";
    out.slices = given.attention.slices;
    out.workspaceAlignment = std::max(caps.minStorageBufferOffsetAlignment, 4u);
    out.statistics = given;
    Plan &forward = out.forward;
    forward.problem = given.attention;
    forward.tuning = stagedTuning(caps);
    const Problem &p = forward.problem;
    if (caps.maxStorageBuffersPerStage < gradientSlots)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "statistics of attention need %u storage buffers a stage; the device has %u. Take the weights of the staged kernel, or "
                    "the CPU",
                    gradientSlots, caps.maxStorageBuffersPerStage);
    if (p.groupSize() > most16Bits) return unsupported(why, "take at most 65535 query heads a key head");
    chooseSteps(out, true);
    if (const auto r = chooseTiles(caps, out, why)) return r;
    out.pairTerms = pairTermsOf(p);
    // Nothing to write. Without queries keys receive 0.
    if ((p.queryTokens == 0 && !out.countsRows()) || (p.keyTokens == 0 && p.queryTokens == 0)) return VKATTN_OK;

    if (const auto r = setTable(forward, limits, why)) return r;
    const uint64_t environment = statistics::environmentBytes(p);
    if (environment + caps.minStorageBufferOffsetAlignment + 8 > caps.maxStorageBufferRange ||
        ceilDiv(p.heads, flash::environmentLanes) > caps.maxWorkgroupCount[0])
        return unsupported(why, "gather the arrays over heads in their workspace, and this device's limits do not take so many heads");
    forward.setUpDispatches += divideUp(statisticsEnvironmentWords, environmentWordsAtOnce);
    forward.setUpBytes = forward.tableBytes + roundUpTo(environment, out.workspaceAlignment);

    const StatisticsLimits own = {out, caps};
    // What one head takes may exceed the workspace cap: fewer rows at a time would take no less.
    PlanLimits least = limits;
    least.maxWorkspaceBytes = std::max(limits.maxWorkspaceBytes, forward.setUpBytes + statistics::scaleBytes(p, 1));
    Chunker chunker(p, least, own, forward.setUpBytes);
    ChunkShape shape{};
    if (p.queryTokens == 0) {
        shape = {p.batch, p.heads, 1, p.keyTokens};
        if (!own.keysFit(shape) || uint64_t{p.batch} * p.heads > caps.maxWorkgroupCount[2])
            return unsupported(why, "without queries take what one dispatch can write; make the problem smaller");
    } else if (const auto failed = chunker.choose(shape, why) ? VKATTN_OK : VKATTN_ERROR_UNSUPPORTED) {
        return failed;
    }
    if (!own.rowsFit(shape) || !own.keysFit(shape))
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "statistics of attention keep two numbers of each row of a head in the workspace; those of %u rows exceed the device's "
                    "maxStorageBufferRange of %u",
                    p.queryTokens, caps.maxStorageBufferRange);
    setChunks(forward, shape);
    if (p.queryTokens == 0) forward.queryChunks = 1;
    if (forward.keyChunks > 1) chooseSteps(out, false);
    out.workspaceBytes = forward.setUpBytes + own.workspaceBytes(shape);
    const double count = static_cast<double>(out.perHeadChunk()) * out.headChunks() + forward.setUpDispatches;
    if (count > 1e9) return unsupported(why, "would take over a billion dispatches to meet the device's limits");
    out.dispatchCount = static_cast<uint32_t>(count);
    return VKATTN_OK;
}

SliceUnits sliceUnits(const StatisticsPlan &plan) {
    return {plan, plan.dispatchCount ? plan.headChunks() * plan.stepCount * plan.pairChunks() : 0, workBeforeUnit, firstDispatchOf};
}

uint32_t mostSlices(const StatisticsPlan &plan, const PlanLimits &limits) {
    if (plan.dispatchCount == 0) return 1;
    Statistics statistics = plan.statistics;
    return mostSlices([&](uint32_t slices) {
        StatisticsPlan finest;
        statistics.attention.slices = slices;
        return planStatistics(statistics, limits, finest, nullptr) == VKATTN_OK ? sliceUnits(finest).count : 0;
    });
}

void explainStatistics(const StatisticsPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    const Statistics &s = plan.statistics;
    out = vkattn_explanation{};
    out.structSize = sizeof out;
    out.kernelName = plan.kernelName;
    out.form = plan.plain                                ? "items in lanes, operands from memory"
               : plan.rows.tile.source == sourceShuffled ? "rows in lanes, then keys in lanes, subgroup shuffles"
                                                         : "dims in lanes, subgroup shuffles";
    out.splits = 1;
    out.sliceCount = plan.slices;
    out.maxSlices = mostSlices(plan, limits);
    out.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    out.dispatchCount = plan.dispatchCount;
    out.chunkCount = plan.dispatchCount ? plan.forward.chunkCount() : 0;
    out.pipelineCount = plan.type->pipelines(plan).size();
    out.workspaceBytes = plan.workspaceBytes;
    out.rowsPerWorkgroup = plan.rows.tile.owned();
    out.keysPerStep = plan.rows.tile.stepItems;
    out.workgroupInvocations = plan.rows.tile.invocations();
    if (plan.dispatchCount) std::copy_n(plan.type->dispatch(plan, plan.forward.setUpDispatches).groups, 3, out.groups);
    out.flopsFull = plan.stepCount * s.flops();
    out.flops = plan.stepCount * visibleFlops(plan.problem()) * plan.problem().headDim / (plan.problem().headDim + plan.problem().valueDim);
    const auto count = [&](vkattn_role role) {
        (s.writes(role) ? out.bytesWritten : out.bytesRead) += static_cast<double>(s.bytesUsed(role).size());
    };
    for (const OperandRule &rule : operandTable) count(rule.role);
    for (const StatisticsOperand &each : statisticsOperands()) count(each.role);
    out.bytesRead += static_cast<double>(plan.workspaceBytes);
    out.bytesWritten += static_cast<double>(plan.workspaceBytes);
    out.compileOperations = compileOperations(plan.forward.tuning);
    out.compileLimit = compileLimit(limits.caps);
    StatisticsPlan dealt = plan; // of very many slices no more than maxSlices have work
    dealt.slices = std::min(plan.slices, out.maxSlices);
    out.largestSlice = largestShare(sliceUnits(dealt));
    std::snprintf(out.choice, sizeof out.choice, "%s",
                  plan.plain ? "the device has no subgroup shuffles that fit, or the head dim is over 256: every item alone, from memory"
                             : "it goes over tiles, with nothing of the size of queries x keys in memory");
}

} // namespace vkattn
