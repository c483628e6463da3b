#include "core/statistics/statistics_plan.hpp"

#include "core/kernels/explain.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/table.hpp"
#include "core/plan/work.hpp"
#include "core/shaders/shaders.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

// In messages.
constexpr TiledOperation statisticsWords = {"statistics of attention", true, "take the weights of the staged kernel, or the CPU"};
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

PipelineSet pipelinesOf(const StatisticsPlan &plan) {
    return withProgram(plan.problem(), statistics::pipelines(plan));
}

constexpr ScheduleType statisticsSchedule = {
    .what = "statistics operation",
    .operands = boundOperands,
    .inPlace = nullptr,
    .dispatch =
        [](const Schedule &schedule, uint32_t index) {
            const StatisticsPlan &plan = planOf(schedule);
            return dispatchWithProgram(plan.problem(), [&] { return statistics::dispatch(plan, index); });
        },
    .pipelines = [](const Schedule &schedule) { return pipelinesOf(planOf(schedule)); },
    .storageDescriptorCount =
        [](const Schedule &schedule) {
            const StatisticsPlan &plan = planOf(schedule);
            const uint64_t passes = uint64_t{plan.headChunks()} * plan.stepCount * plan.pairChunks();
            return storageDescriptors(plan, passes);
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

// Steps of two and more: some drivers count rounds of loops (core/plan/plan.hpp). On CPU devices a row alone has
// its dims in lanes, as tiles of GPUs have: of 32 rows in lanes 31 would have nothing to do. The pass is 2.7 times
// as fast then (32 heads on 8, 4096 keys, head dim 64; Mesa 22, 2 cores of a shared machine, 2026-11-25); with 4
// rows it is no faster, nor is the pass that owns keys in any of six tiles. Other tiles were not tried.
PassTile tileOf(const Caps &caps, bool ownsKeys, uint32_t dim, bool oneRow, uint32_t topListed) {
    if (caps.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) {
        PassTile tile = gpuPassTile(ownsKeys, dim, 2);
        // Lists of the largest weights lie in registers, a score and a key for each: 4 rows with 8 of them spilled
        // 75 registers on Adreno 750 (bench/results/compile/).
        constexpr uint32_t mostListed = 20;
        if (topListed) tile.ownedPerLane = std::clamp(mostListed / topListed, 1u, tile.ownedPerLane);
        return tile;
    }
    if (oneRow && !ownsKeys && dim <= 256) return {256, caps.subgroupSize, 1, 1, 4, sourceDirect, 1, 0};
    // Up to 128 dims the tiles for clustered operations are those of the forward pass with twice the pairs: both passes
    // take 0.67 to 0.90 of the time of the other ones (bench/results/gradients/2026-11-26-pass-tiles.csv). 256 dims were not timed.
    const PassTile tiles[] = {cpuPassTile(caps, 64, 4, 2), cpuPassTile(caps, 128, 2, 4), cpuPassTile(caps, 256, 1, 8)};
    const PassTile clustered[] = {cpuPassTile(caps, 64, 4, 4), cpuPassTile(caps, 128, 4, 2), cpuPassTile(caps, 256, 1, 8, true)};
    return caps.subgroupClustered ? tileFor(dim, clustered) : tileFor(dim, tiles);
}
// A lane has an item alone, and both sides come from memory: any head dim, no subgroups.
PassTile plainTile(const Caps &caps) {
    const bool onCpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    return {maxDim, 1, std::min(onCpu ? 8u : 64u, caps.maxWorkgroupInvocations), 1, 4, sourceDirect, 1, 0};
}

void layOut(const StatisticsPlan &plan, const Tensor &passing, TiledPass &pass) {
    // Of the plain form elements come one by one.
    const PassingDims dims =
        plan.plain ? PassingDims{roundUp(passing.extent[3], plainDims), 1, dimsApart} : passingDims(pass.tile, passing, plan.shuffleLanes);
    pass.dimsPerLane = dims.perLane, pass.run = dims.run, pass.dimOrder = dims.order;
}

struct StatisticsLimits {
    const StatisticsPlan &plan;
    const Caps &caps;
    const Problem &p = plan.problem();
    uint32_t rowTile = plan.rows.tile.owned(), keyTile = keyTileOfChunks, headTile = 1;
    uint32_t sliceQueries = rowTile, sliceKeys = 1024;

    [[nodiscard]] bool tokensFit(vkattn_role role, const ChunkShape &s, uint32_t tokens) const {
        return vkattn::tokensFit(caps, plan.statistics.tensor(role), p.ragged(), s.batches, s.heads, tokens);
    }
    // Rounds of all loops of a lane that so many items pass by. Every item of a step may be among the
    // largest of a row, and a round inserts one into each row.
    [[nodiscard]] bool fewRounds(const TiledPass &pass, uint64_t items, uint32_t topCount) const {
        const PassTile &tile = pass.tile;
        const uint64_t steps = ceilDiv(items, tile.stepItems) + 4, ofTop = topCount ? tile.stepItems + 1 : 0;
        const uint64_t ends = uint64_t{tile.ownedPerLane} * 4 + skipRounds(p, tile.owned()).of(items, tile.stepItems);
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
               s.heads <= most16Bits && bindable(caps, workspaceBytes(s)) && tokensFit(VKATTN_STATISTICS, s, s.queries) &&
               tokensFit(VKATTN_TOP_WEIGHTS, s, s.queries) && tokensFit(VKATTN_TOP_KEYS, s, s.queries);
    }
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const { return statistics::scaleBytes(p, uint64_t{s.batches} * s.heads); }
};

vkattn_result chooseTiles(const Caps &caps, StatisticsPlan &plan, vkattn_diagnostic *why) {
    const Problem &p = plan.problem();
    plan.shuffleLanes = shuffleLanes(caps);
    // Bits of a row must not depend on how many rows there are.
    const bool oneRow = p.queryTokens == 1 && !p.deterministic;
    plan.rows.tile = tileOf(caps, false, p.headDim, oneRow, plan.topListed);
    plan.keys.tile = tileOf(caps, true, p.headDim, oneRow, 0);
    plan.plain = !shuffles(caps);
    for (const PassTile &tile : {plan.rows.tile, plan.keys.tile}) plan.plain = plan.plain || !tile.maxDim || !fits(tile, caps);
    if (plan.plain) plan.rows.tile = plan.keys.tile = plainTile(caps);
    if (!fits(plan.rows.tile, caps)) return refuse(statisticsWords, "need larger workgroups than the device has", why);
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
    beginSchedule(out, statisticsSchedule, "statistics", "vkattn statistics", given.attention.slices, caps);
    out.statistics = given;
    Plan &forward = out.forward;
    forward.problem = given.attention;
    const Problem &p = forward.problem;
    if (const auto r = checkBindings(statisticsWords, p, caps, why)) return r;
    chooseSteps(out, true);
    if (const auto r = chooseTiles(caps, out, why)) return r;
    out.pairTerms = pairTermsOf(p) & ~uint32_t{termProbabilityHook}; // what becomes of probabilities later
    // Nothing to write. Without queries keys receive 0.
    if ((p.queryTokens == 0 && !out.countsRows()) || (p.keyTokens == 0 && p.queryTokens == 0)) return VKATTN_OK;

    if (const auto r = startPlan(limits, forward, why)) return r;
    if (const auto r = setEnvironment(statisticsWords, statisticsEnvironmentWords, forward, caps, why)) return r;

    const StatisticsLimits own = {out, caps};
    // What one head takes may exceed the workspace cap: fewer rows at a time would take no less.
    PlanLimits least = limits;
    least.maxWorkspaceBytes = std::max(limits.maxWorkspaceBytes, forward.setUpBytes + statistics::scaleBytes(p, 1));
    Problem cutAs = p; // without queries keys still receive something: 0
    cutAs.queryTokens = std::max(p.queryTokens, 1u);
    Chunker chunker(cutAs, least, own, forward.setUpBytes);
    ChunkShape shape{};
    if (!chunker.choose(shape, why)) return VKATTN_ERROR_UNSUPPORTED;
    setChunks(forward, shape);
    forward.queryChunks = std::max(forward.queryChunks, 1u);
    if (forward.keyChunks > 1) chooseSteps(out, false);
    out.workspaceBytes = forward.setUpBytes + own.workspaceBytes(shape);
    const double count = static_cast<double>(out.perHeadChunk()) * out.headChunks() + forward.setUpDispatches;
    if (const auto r = setDispatchCount(statisticsWords, count, out, why)) return r;
    return checkProgram(p, pipelinesOf(out), out.kernelName, why);
}

SliceUnits sliceUnits(const StatisticsPlan &plan) {
    return {plan, plan.dispatchCount ? plan.headChunks() * plan.stepCount * plan.pairChunks() : 0, workBeforeUnit, firstDispatchOf};
}

uint32_t mostSlices(const StatisticsPlan &plan, const PlanLimits &limits) {
    Statistics statistics = plan.statistics;
    return mostSlicesWith(plan, [&](uint32_t slices, StatisticsPlan &finest) {
        statistics.attention.slices = slices;
        return planStatistics(statistics, limits, finest, nullptr);
    });
}

void explainStatistics(const StatisticsPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    const Statistics &s = plan.statistics;
    explainSchedule(plan, limits, plan.forward, out);
    out.form = plan.plain                                       ? "items in lanes, operands from memory"
               : plan.rows.tile.source == plan.keys.tile.source ? formText(plan.rows.tile)
                                                                : "dims of a row in lanes, then keys in lanes, subgroup shuffles";
    out.chunkCount = plan.dispatchCount ? plan.forward.chunkCount() : 0;
    explainTile(plan.forward, plan.rows.tile, out);
    out.flopsFull = plan.stepCount * s.flops();
    out.flops = plan.stepCount * visibleFlops(plan.problem()) * plan.problem().headDim / (plan.problem().headDim + plan.problem().valueDim);
    explainWorkspaceTraffic(plan, out);
    std::snprintf(out.choice, sizeof out.choice, "%s",
                  plan.plain ? "the device has no subgroup shuffles that fit, or the head dim is over 256: every item alone, from memory"
                             : "it goes over tiles, with nothing of the size of queries x keys in memory");
}

} // namespace vkattn
