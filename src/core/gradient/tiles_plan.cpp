// How the fused kernels of gradients lay out their tiles and cut a problem: chunks of whole key heads,
// with all their rows and keys, so that no sum waits for another dispatch.
#include "core/gradient/gradient_plan.hpp"
#include "core/kernels/flash.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/table.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace vkattn {
namespace {

// More items a lane share a load; the operands and sums of more than these leave the first-level cache.
// Measured 2026-11-23 and 2026-11-24 on lavapipe, 2 cores of an AMD EPYC: docs/performance.md.
PassTile cpuTile(const Caps &caps, bool ownsKeys, uint32_t dim) {
    // With clustered operations (Mesa 23 and later) four items a step let their chains of multiply-adds overlap:
    // 0.8 of the time of one item at 64 dims, 0.6 at 128. 256 dims were not timed.
    const PassTile clustered[] = {cpuPassTile(caps, 64, 2, 4), cpuPassTile(caps, 128, 2, 4), cpuPassTile(caps, 256, 1, 1, true)};
    const PassTile tiles[] = {cpuPassTile(caps, 64, ownsKeys ? 2 : 4, 1), cpuPassTile(caps, 128, ownsKeys ? 1 : 2, 1),
                              cpuPassTile(caps, 256, 1, 1)};
    return caps.subgroupClustered ? tileFor(dim, clustered) : tileFor(dim, tiles);
}

// Two items that pass by at a time share a lane's loads; a lane of subgroups of 128 (Adreno) has 192
// registers for four rows and one item.
PassTile gpuTile(const Caps &caps, bool ownsKeys, uint32_t dim) {
    return gpuPassTile(ownsKeys, dim, !ownsKeys && caps.subgroupSize > 64 ? 1 : 2);
}

// A maxDim of 0: there is none.
PassTile gradientTile(const Caps &caps, bool ownsKeys, uint32_t dim) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuTile(caps, ownsKeys, dim) : gpuTile(caps, ownsKeys, dim);
}

// `head` and `value` pass by.
void layOut(const Tensor &head, const Tensor &value, uint32_t shuffleLanes, GradientPass &pass) {
    const PassingDims ofHead = passingDims(pass.tile, head, shuffleLanes), ofValue = passingDims(pass.tile, value, shuffleLanes);
    pass.dimsPerLane = ofHead.perLane, pass.run = ofHead.run;
    pass.valueDimsPerLane = ofValue.perLane, pass.valueRun = ofValue.run;
    pass.dimOrder = std::min(ofHead.order, ofValue.order);
}

// What a lane loops over: items in steps, some of them whole and some tested, and leaving a loop
// counts as a round of it.
// With dropout, runs of 32 keys each have a loop that draws.
uint64_t iterations(const GradientPass &pass, const SkipRounds &skips, uint64_t heads, uint64_t items, bool draws) {
    const PassTile &tile = pass.tile;
    const uint64_t dims = uint64_t{pass.dimsPerLane} + pass.valueDimsPerLane;
    const uint64_t edges = tile.ownedPerLane * (tile.rolledEdges ? 4 * dims : dims / edgeDims + 4);
    const uint64_t drawn = draws ? ceilDiv(items, 32) * 14 : 0;
    // With rules, tiles in shared memory ask for themselves too.
    const uint64_t tiles = tile.source == sourceShared && skips.perStretch ? ceilDiv(items, tile.tileItems) * (skips.perStretch + 2) : 0;
    return heads * (ceilDiv(items, tile.stepItems) + tiles + 4) + skips.of(items, tile.stepItems, heads) + drawn + edges;
}

struct TileLimits {
    const GradientPlan &plan;
    const Caps &caps;
    const Problem &p = plan.problem();
    const Gradient &g = plan.gradient;
    uint32_t rowTile = 1, keyTile = 1, headTile = p.groupSize(), sliceQueries = p.queryTokens, sliceKeys = p.keyTokens;

    [[nodiscard]] bool tokensFit(vkattn_role role, uint32_t batches, uint32_t heads) const {
        const Tensor &t = g.tensor(role);
        return vkattn::tokensFit(caps, t, p.ragged(), batches, heads, t.extent[2]);
    }
    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        const uint32_t heads = s.heads / p.groupSize();
        return s.keys == p.keyTokens && divideUp(s.keys, plan.tiles.keys.tile.owned()) <= caps.maxWorkgroupCount[0] &&
               tokensFit(VKATTN_D_K, s.batches, heads) && tokensFit(VKATTN_D_V, s.batches, heads);
    }
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        const uint64_t rows = uint64_t{s.batches} * s.heads * s.queries;
        // Of a batch entry all heads or of one entry some: sums of arrays go on from chunk to chunk.
        return s.queries == p.queryTokens && s.heads % p.groupSize() == 0 && s.heads <= 65535 && (s.batches == 1 || s.heads == p.heads) &&
               divideUp(s.queries, std::min(plan.tiles.rows.tile.owned(), plan.forward.tuning.pairLanes)) <= caps.maxWorkgroupCount[0] &&
               bindable(caps, 4 * rowSumWords * rows) &&
               rows / plan.forward.tuning.sequenceLanes + uint64_t{s.batches} * s.heads <= maxKeysPerLane &&
               tokensFit(VKATTN_D_OUT, s.batches, s.heads) && tokensFit(VKATTN_D_LSE, s.batches, s.heads) &&
               tokensFit(VKATTN_D_Q, s.batches, s.heads);
    }
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const { return layOut(s).end - plan.forward.setUpBytes; }

    [[nodiscard]] GradientWorkspace layOut(const ChunkShape &s) const {
        const uint64_t rows = uint64_t{s.batches} * s.heads * s.queries;
        GradientWorkspace at{};
        uint64_t end = plan.forward.setUpBytes;
        const auto place = [&](uint64_t words) {
            const uint64_t begin = end;
            end = roundUpTo(end + 4 * words, plan.workspaceAlignment);
            return begin;
        };
        at.scores = at.deltas = at.facts = place(rows * rowFactWords);
        at.rowSums = place(tiledGradient::sumsRows(plan) ? rows * rowSumWords : 0);
        at.laneSums = place(laneSums(plan));
        at.querySums = at.valueSums = at.keySums = at.end = at.biasSums = at.biasEnd = end;
        return at;
    }
};

bool onMatrixUnits(const GradientPlan &plan) {
    return plan.kernel->id == VKATTN_GRADIENT_COOPMAT;
}
// In messages.
TiledOperation wordsOf(const GradientPlan &plan) {
    return {onMatrixUnits(plan) ? "the coopmat kernel of gradients" : "the tiled kernel of gradients", false,
            "take VKATTN_GRADIENT_AUTO or VKATTN_GRADIENT_STAGED"};
}

vkattn_result unsupported(const GradientPlan &plan, vkattn_diagnostic *why, const char *predicate) {
    return refuse(wordsOf(plan), predicate, why);
}

// Dispatches of a pass over so many items.
uint32_t partsOf(const GradientPass &pass, uint32_t items) {
    return divideUp(divideUp(items, pass.tile.owned()), pass.groupsAtOnce);
}

// Multiply-adds of a pair: scores and dP in both passes, and dQ, or dK and dV.
double costOf(const GradientPlan &plan, bool keys) {
    const Problem &p = plan.problem();
    return keys ? 2.0 * p.headDim + 2.0 * p.valueDim : 2.0 * p.headDim + p.valueDim;
}

// The share of a pass that comes before its part-th dispatch.
double ownedShare(const GradientPlan &plan, bool keys, uint32_t part) {
    const Problem &p = plan.problem();
    const GradientPass &pass = keys ? plan.tiles.keys : plan.tiles.rows;
    const auto owned = static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{part} * pass.groupsAtOnce * pass.tile.owned(), keys ? p.keyTokens : p.queryTokens));
    const auto work = [&](uint32_t items) {
        return (keys ? visiblePairs(p, p.queryTokens, items) : visiblePairs(p, items, p.keyTokens)) + items;
    };
    return work(owned) / work(keys ? p.keyTokens : p.queryTokens);
}

// Cuts both passes of a chunk, so that no dispatch is longer than half a slice: slices then come out
// nearly even, though the passes differ. Lanes have the same items as in one piece.
void cutPasses(GradientPlan &plan) {
    const Problem &p = plan.problem();
    const double halves = 2.0 * p.slices / plan.rowChunks();
    for (const bool keys : {false, true}) {
        GradientPass &pass = keys ? plan.tiles.keys : plan.tiles.rows;
        const uint32_t groups = divideUp(keys ? p.keyTokens : p.queryTokens, pass.tile.owned());
        const double parts = std::ceil(halves * costOf(plan, keys) / (costOf(plan, false) + costOf(plan, true)));
        pass.groupsAtOnce = p.slices > 1 ? divideUp(groups, static_cast<uint32_t>(std::clamp<double>(parts, 1, groups))) : groups;
    }
}

vkattn_result chooseTiles(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const Problem &p = plan.problem();
    GradientTiles &tiles = plan.tiles;
    if (!shuffles(caps))
        return unsupported(plan, why, "needs subgroup shuffles, among 4 to 16 lanes on a CPU device and at least 16 on others");
    const uint32_t dim = std::max(p.headDim, p.valueDim);
    tiles.shuffleLanes = shuffleLanes(caps);
    tiles.rows.tile = gradientTile(caps, false, dim);
    tiles.keys.tile = gradientTile(caps, true, dim);
    if (!tiles.rows.tile.maxDim || !tiles.keys.tile.maxDim)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the tiled kernel of gradients takes head and value dims up to 256, and this problem has %u", dim);
    layOut(p.tensor(VKATTN_K), p.tensor(VKATTN_V), tiles.shuffleLanes, tiles.rows);
    layOut(p.tensor(VKATTN_Q), plan.gradient.tensor(VKATTN_D_OUT), tiles.shuffleLanes, tiles.keys);
    for (const GradientPass *pass : {&tiles.rows, &tiles.keys}) {
        if (!fits(pass->tile, caps)) return unsupported(plan, why, "needs larger workgroups than the device has");
        const SkipRounds skips = skipRounds(p, pass->tile.owned());
        const uint64_t loops = pass == &tiles.rows ? iterations(*pass, skips, 1, p.keyTokens, p.drops())
                                                   : iterations(*pass, skips, p.groupSize(), p.queryTokens, false);
        if (loops > maxKeysPerLane)
            return fail(why, VKATTN_ERROR_UNSUPPORTED,
                        "a lane of the tiled kernel of gradients would loop %llu times, at most %u; take VKATTN_GRADIENT_AUTO or "
                        "VKATTN_GRADIENT_STAGED",
                        static_cast<unsigned long long>(loops), maxKeysPerLane);
    }
    return VKATTN_OK;
}

} // namespace

ChunkSteps tiledGradient::steps(const GradientPlan &plan) {
    const Phases phases = phasesOf(plan);
    return {rowFactDispatches, phases.rows + phases.keys, phases.arrays};
}

double tiledGradient::shareBefore(const GradientPlan &plan, uint32_t step) {
    const Phases phases = phasesOf(plan);
    const bool keys = step >= phases.rows;
    const double rowCost = phases.rows ? costOf(plan, false) : 0, keyCost = phases.keys ? costOf(plan, true) : 0;
    const double before = keys ? rowCost + keyCost * ownedShare(plan, true, step - phases.rows) : rowCost * ownedShare(plan, false, step);
    return before / (rowCost + keyCost);
}

// SwiftShader has subgroups of four lanes without clustered operations, as has the older Mesa where the
// processor lacks AVX. Its compiler does not optimize: there the staged kernel is 3.5 times as fast
// (4 heads of 512 tokens, head dim 64).
bool tiledGradient::suits(const Gradient &, const PlanLimits &limits) {
    const Caps &caps = limits.caps;
    return caps.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU || caps.subgroupClustered || caps.subgroupSize >= 8;
}

bool tiledGradient::sumsRows(const GradientPlan &plan) {
    return arraysOf(plan.gradient) > 0;
}

uint32_t tiledGradient::Phases::perChunk() const {
    return rowFactDispatches + rows + keys + arrays;
}

tiledGradient::Phases tiledGradient::phasesOf(const GradientPlan &plan) {
    const Gradient &g = plan.gradient;
    Phases phases{};
    phases.arrays = arraysOf(g);
    const Problem &p = plan.problem();
    phases.rows = g.uses(VKATTN_D_Q) || phases.arrays ? partsOf(plan.tiles.rows, p.queryTokens) : 0;
    phases.keys = g.uses(VKATTN_D_K) || g.uses(VKATTN_D_V) ? partsOf(plan.tiles.keys, p.keyTokens) : 0;
    phases.arrayChecks = g.has(VKATTN_NONFINITE) ? phases.arrays : 0;
    return phases;
}

vkattn_result tiledGradient::makePlan(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const Problem &p = plan.problem();
    const Gradient &g = plan.gradient;
    Plan &forward = plan.forward;
    const TiledOperation words = wordsOf(plan);
    if (const auto r = checkBindings(words, p, caps, why)) return r;
    if (p.queryTokens == 0 || p.keyTokens == 0) return unsupported(plan, why, "needs queries and keys: otherwise all gradients are 0");
    if (g.uses(VKATTN_D_BIAS)) return unsupported(plan, why, "does not compute dBias");
    if (g.uses(VKATTN_D_WEIGHTS)) return unsupported(plan, why, "does not take dWeights");
    plan.tiles.pairTerms = pairTermsOf(p);
    plan.tiles.rows.head = g.uses(VKATTN_D_Q);
    plan.tiles.keys.head = g.uses(VKATTN_D_K);
    plan.tiles.keys.value = g.uses(VKATTN_D_V);
    if (const auto r = onMatrixUnits(plan) ? matrixGradient::chooseTiles(limits, plan, why) : chooseTiles(limits, plan, why)) return r;

    if (const auto r = setEnvironment(words, gradientEnvironmentWords, forward, caps, why)) return r;
    const TileLimits own = {plan, caps};
    Chunker chunker(p, limits, own, forward.setUpBytes);
    ChunkShape shape{};
    if (!chunker.choose(shape, nullptr) || !own.keysFit(shape) || !own.rowsFit(shape))
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "%s takes all rows and keys of a key head in one dispatch: they exceed the device's "
                    "maxStorageBufferRange of %u, its workgroup counts, or the workspace of %llu bytes; take VKATTN_GRADIENT_AUTO or "
                    "VKATTN_GRADIENT_STAGED",
                    words.name, caps.maxStorageBufferRange, static_cast<unsigned long long>(limits.maxWorkspaceBytes));
    setChunks(forward, shape);
    forward.rowPitch = p.keyTokens;
    cutPasses(plan);
    plan.at = own.layOut(shape);
    plan.workspaceBytes = plan.at.end;
    const Phases phases = phasesOf(plan);
    const double count = static_cast<double>(phases.perChunk()) * plan.rowChunks() + phases.arrayChecks + forward.setUpDispatches;
    return setDispatchCount(words, count, plan, why);
}

PipelineSet tiledGradient::pipelines(const GradientPlan &plan) {
    PipelineSet set;
    const Phases phases = phasesOf(plan);
    const uint32_t setUp = plan.forward.setUpDispatches;
    const auto add = [&](uint32_t first, uint32_t count) {
        for (uint32_t n = 0; n < count; ++n) set.add(dispatch(plan, first + n).key);
    };
    // The parts of a pass are alike.
    const uint32_t rows = setUp + rowFactDispatches, keys = rows + phases.rows, arrays = keys + phases.keys;
    add(0, rows);
    add(rows, std::min(phases.rows, 1u));
    add(keys, std::min(phases.keys, 1u));
    add(arrays, phases.arrays);
    for (uint32_t n = 0; n < phases.arrayChecks; ++n) set.add(dispatch(plan, plan.dispatchCount - 1 - n).key);
    return set;
}

void tiledGradient::explain(const GradientPlan &plan, vkattn_explanation &out) {
    const PassTile &tile = plan.tiles.rows.tile;
    out.form = formText(tile);
    explainTile(plan.forward, tile, out);
}

uint64_t tiledGradient::storageDescriptorCount(const GradientPlan &plan) {
    const Phases phases = phasesOf(plan);
    return storageDescriptors(plan, uint64_t{plan.rowChunks()} * (phases.rows + phases.keys));
}

} // namespace vkattn
