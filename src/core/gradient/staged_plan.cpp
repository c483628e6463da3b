// How the staged kernel of gradients cuts a problem, and where its workspace has what.
#include "core/gradient/gradient_plan.hpp"

#include "core/kernels/staged.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/table.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

// Rows that one invocation sums up in a dispatch: a shader may loop so often and no more
// (maxKeysPerDispatch).
constexpr uint64_t maxRowsPerSum = 32768;

bool cut(const ChunkShape &s, const Problem &p) {
    return s.queries < p.queryTokens || (s.heads < p.heads && s.heads % p.groupSize() != 0);
}

// Chunks are runs of rows in the order of batch, head and query, so that sums over rows go on from
// chunk to chunk in the order that they have in one.
struct GradientLimits {
    const GradientPlan &plan;
    const Caps &caps;
    const Problem &p = plan.problem();
    const Gradient &g = plan.gradient;
    const StagedTuning &tuning = plan.forward.tuning;
    uint32_t rowTile = 1, keyTile = 1, headTile = 1, sliceQueries = 1, sliceKeys = 1024;

    [[nodiscard]] uint32_t keyHeads(uint32_t heads) const {
        const uint32_t group = p.groupSize();
        return heads % group == 0 ? heads / group : std::min(p.kvHeads, (heads - 1) / group + 2);
    }
    [[nodiscard]] bool tokensFit(vkattn_role role, uint32_t batches, uint32_t heads, uint32_t tokens) const {
        return vkattn::tokensFit(caps, g.tensor(role), p.ragged(), batches, heads, tokens);
    }
    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        const uint32_t tileX = std::min(
            {tuning.scores[manyRows].sizeX(), tuning.scores[fewRows].sizeX(), tuning.pairLanes * tuning.pairKeysPerLane, tuning.pairLanes});
        if (s.keys > mostItemsPerDispatch(p) || ceilDiv(s.keys, tileX) > caps.maxWorkgroupCount[0] || s.keys > caps.maxWorkgroupCount[1])
            return false;
        const uint32_t heads = keyHeads(s.heads), keys = std::min(s.keys, p.keyTokens);
        return tokensFit(VKATTN_D_K, s.batches, heads, keys) && tokensFit(VKATTN_D_V, s.batches, heads, keys) &&
               bindable(caps, biasPart(s, g.tensor(VKATTN_D_BIAS)));
    }
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        if (s.queries > caps.maxWorkgroupCount[0] || s.queries > caps.maxWorkgroupCount[1]) return false;
        if (const GradientWorkspace at = layOut(s); !bindable(caps, at.end - at.scores)) return false;
        if (s.batches > 1 && s.heads < p.heads) return false;
        if ((s.batches > 1 || s.heads > 1) && s.queries < p.queryTokens) return false;
        const Tensor &bias = g.tensor(VKATTN_D_BIAS);
        const uint64_t summed = bias.present() ? (bias.extent[0] == 1 ? uint64_t{s.batches} : 1) * (bias.extent[1] == 1 ? s.heads : 1) *
                                                     (bias.extent[2] == 1 ? s.queries : 1)
                                               : 0;
        if (std::max(summed, uint64_t{std::min(s.heads, p.groupSize())} * s.queries) > (p.hasRules() ? maxRowsPerSum / 2 : maxRowsPerSum))
            return false;
        // A lane of row_sums.comp loops over batch entries, heads and its rows.
        if (uint64_t{s.batches} * s.heads * (1 + ceilDiv(s.queries, tuning.sequenceLanes)) > maxRowsPerSum) return false;
        for (const vkattn_role role : {VKATTN_D_OUT, VKATTN_D_LSE, VKATTN_D_Q})
            if (!tokensFit(role, s.batches, s.heads, s.queries)) return false;
        const Tensor &weights = g.tensor(VKATTN_D_WEIGHTS);
        return !weights.present() || bindable(caps, weights.span({{}, {s.batches, s.heads, s.queries, p.keyTokens}}).size());
    }
    // Of the chunk's part of dBias, as a tensor of this layout.
    [[nodiscard]] uint64_t biasPart(const ChunkShape &s, const Tensor &t) const {
        return t.present() ? t.span({{}, {s.batches, s.heads, s.queries, std::min(s.keys, p.keyTokens)}}).size() : 0;
    }
    // Sums that wait come on top of the cap: smaller chunks would not make them smaller.
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const {
        const GradientWorkspace at = layOut(s);
        return at.valueSums - at.scores;
    }

    [[nodiscard]] GradientWorkspace layOut(const ChunkShape &s) const {
        const uint64_t rows = uint64_t{s.batches} * s.heads * s.queries, pairs = rows * std::max(p.keyTokens, 1u);
        GradientWorkspace at{};
        uint64_t end = plan.forward.setUpBytes;
        const auto place = [&](uint64_t words) {
            const uint64_t begin = end;
            end = roundUpTo(end + 4 * words, plan.workspaceAlignment);
            return begin;
        };
        const bool shared = cut(s, p), deltas = plan.needsDeltas();
        at.scores = place(pairs);
        at.deltas = place(deltas ? pairs : 0);
        at.facts = place(rows * rowFactWords);
        at.rowSums = place(deltas ? rows * rowSumWords : 0);
        at.laneSums = place(laneSums(plan));
        at.querySums = place(g.uses(VKATTN_D_Q) && s.keys < p.keyTokens ? rows * p.headDim : 0);
        at.valueSums = place(shared ? waitingWords(VKATTN_D_V) : 0);
        at.keySums = place(shared ? waitingWords(VKATTN_D_K) : 0);
        at.end = end;
        return at;
    }
    // Of the sums of a key head's keys that wait in the workspace.
    [[nodiscard]] uint64_t waitingWords(vkattn_role role) const {
        const Tensor &t = g.tensor(role);
        return t.present() && t.dtype != VKATTN_F32 ? uint64_t{2} * p.keyTokens * t.extent[3] : 0;
    }
};

} // namespace

uint32_t arraysOf(const Gradient &g) {
    return static_cast<uint32_t>(
        std::count_if(std::begin(summedArrays), std::end(summedArrays), [&](vkattn_role role) { return g.uses(role); }));
}

uint64_t laneSums(const GradientPlan &plan) {
    const Gradient &g = plan.gradient;
    uint64_t sums = 0;
    for (const vkattn_role role : summedArrays)
        if (g.uses(role)) sums += g.arrayLength(role);
    return sums * plan.forward.tuning.sequenceLanes;
}

uint32_t stagedGradient::Phases::perRowChunk() const {
    uint32_t all = 0;
    for (const uint32_t each : count) all += each;
    return all;
}

stagedGradient::Phases stagedGradient::phasesOf(const GradientPlan &plan) {
    const Gradient &g = plan.gradient;
    const Problem &p = plan.problem();
    const bool deltas = plan.needsDeltas(), rows = p.queryTokens > 0;
    const uint32_t keyChunks = p.keyTokens ? plan.forward.keyChunks : 0, pairChunks = rows ? keyChunks : 0;
    const auto stores = [&](vkattn_role role) { return g.uses(role) && !g.tensor(role).empty(); };
    const Tensor &bias = g.tensor(VKATTN_D_BIAS);
    // Where the bias broadcasts keys one dispatch sums up rows.
    const uint32_t biasChunks = !stores(VKATTN_D_BIAS) ? 0 : bias.extent[3] == 1 ? 1 : keyChunks;
    const bool dots = deltas && rows && p.keyTokens > 0 && (p.softcap > 0 || g.has(VKATTN_D_SCALE));
    const uint32_t arrays = arraysOf(g);

    Phases phases{};
    phases.count[phaseFacts] = rows ? rowFactDispatches : 0;
    phases.count[phaseScores] = pairChunks;
    phases.count[phasePairs] = pairChunks * static_cast<uint32_t>(std::popcount(staged::termsOfPairs(p, termsOfDeltas)));
    phases.count[phaseUpstream] = deltas ? pairChunks : 0;
    phases.count[phaseDeltas] = rows ? 1 : 0;
    phases.count[phaseValues] = stores(VKATTN_D_V) ? keyChunks : 0;
    phases.count[phaseBias] = biasChunks;
    phases.count[phaseDots] = dots ? pairChunks : 0;
    phases.count[phaseCaps] = dots ? 1 : 0;
    phases.count[phaseQueries] = stores(VKATTN_D_Q) ? std::max(keyChunks, 1u) : 0;
    phases.count[phaseKeys] = stores(VKATTN_D_K) ? keyChunks : 0;
    phases.count[phaseRowSums] = arrays;
    if (g.has(VKATTN_NONFINITE)) {
        phases.checks = (stores(VKATTN_D_Q) ? 1u : 0u) + phases.count[phaseKeys] + phases.count[phaseValues] + biasChunks;
        phases.arrayChecks = arrays;
    }
    return phases;
}

ChunkSteps stagedGradient::steps(const GradientPlan &plan) {
    const Phases phases = phasesOf(plan);
    const uint32_t facts = phases.count[phaseFacts], arrays = phases.count[phaseRowSums];
    return {facts, phases.perRowChunk() - facts - arrays, arrays};
}

double stagedGradient::shareBefore(const GradientPlan &plan, uint32_t step) {
    const Problem &p = plan.problem();
    const Phases phases = phasesOf(plan);
    double before = 0, all = 0;
    for (uint32_t phase = phaseScores; phase < phaseRowSums; ++phase) {
        const uint32_t count = phases.count[phase];
        if (count == 0) continue;
        // Multiply-adds of a pair, or as much for what goes through memory.
        const double cost = phase == phaseUpstream || phase == phaseValues                                              ? p.valueDim
                            : phase == phaseScores || phase == phaseDots || phase == phaseQueries || phase == phaseKeys ? p.headDim
                                                                                                                        : 4;
        const uint32_t done = std::min(step, count);
        before += cost * done / count;
        all += cost;
        step -= done;
    }
    return before / all;
}

vkattn_result stagedGradient::makePlan(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why) {
    const Problem &p = plan.problem();
    Plan &forward = plan.forward;
    if (const uint32_t most = maxKeysPerLane * forward.tuning.softmaxLanes[fewRows]; p.keyTokens > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%u keys; the staged kernel of gradients takes rows of at most %u", p.keyTokens, most);
    if (const uint32_t most = maxKeysPerLane * forward.tuning.softmaxLanes[manyRows]; p.deterministic && p.ragged() && p.keyTokens > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "maxSeqK is %u; with VKATTN_DETERMINISTIC the staged kernel of gradients takes sequences of at most %u keys",
                    p.keyTokens, most);
    const uint32_t columns = std::min(forward.tuning.values[manyRows].sizeX(), forward.tuning.values[narrow].sizeX());
    if (const uint64_t groups = ceilDiv(std::max(p.headDim, p.valueDim), std::min(columns, forward.tuning.values[fewRows].sizeX()));
        groups > limits.caps.maxWorkgroupCount[0])
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "dims of %u may take %u workgroups; the device's maxComputeWorkGroupCount[0] is %u",
                    std::max(p.headDim, p.valueDim), static_cast<uint32_t>(groups), limits.caps.maxWorkgroupCount[0]);

    const GradientLimits own = {plan, limits.caps};
    Problem cutAs = p; // without queries the keys still have gradients, of 0
    cutAs.queryTokens = std::max(p.queryTokens, 1u);
    cutAs.slices = p.slices - p.slices / 2; // a slice may end after each of a chunk's products
    Chunker chunker(cutAs, limits, own, forward.setUpBytes);
    ChunkShape shape{};
    if (!chunker.choose(shape, why)) return VKATTN_ERROR_UNSUPPORTED;
    if (!own.keysFit(shape) || !own.rowsFit(shape))
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "one row of the gradient needs more than the device's maxStorageBufferRange of %u bytes; store dOut, dQ, dK, dV, "
                    "dBias and dWeights more densely, dK and dV as f32, or use the CPU",
                    limits.caps.maxStorageBufferRange);
    setChunks(forward, shape);
    forward.queryChunks = std::max(forward.queryChunks, 1u);
    forward.rowPitch = std::max(p.keyTokens, 1u);
    plan.at = own.layOut(shape);
    // Sums of dBias that several chunks share, where dBias cannot hold them itself.
    const Tensor &bias = plan.gradient.tensor(VKATTN_D_BIAS);
    const bool shared = (bias.extent[0] == 1 && forward.batchChunks > 1) || (bias.extent[1] == 1 && forward.headChunks > 1) ||
                        (bias.extent[2] == 1 && forward.queryChunks > 1);
    plan.at.biasSums = plan.at.biasEnd = plan.at.end;
    if (bias.present() && bias.dtype != VKATTN_F32 && shared)
        plan.at.biasEnd += uint64_t{4} * bias.extent[0] * bias.extent[1] * bias.extent[2] * bias.extent[3];
    plan.workspaceBytes = plan.at.biasEnd;

    const Phases phases = phasesOf(plan);
    const double count =
        static_cast<double>(phases.perRowChunk() + phases.checks) * plan.rowChunks() + phases.arrayChecks + forward.setUpDispatches;
    if (count > 1e9)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the gradient would take %.0f dispatches to meet the device's limits; make tensors denser or the problem smaller",
                    count);
    plan.dispatchCount = static_cast<uint32_t>(count);
    return VKATTN_OK;
}

PipelineSet stagedGradient::pipelines(const GradientPlan &plan) {
    PipelineSet set;
    const Phases phases = phasesOf(plan);
    const uint32_t setUp = plan.forward.setUpDispatches, perRowChunk = phases.perRowChunk(), queryChunks = plan.forward.queryChunks;
    const auto add = [&](uint32_t first, uint32_t count) {
        for (uint32_t n = 0; n < count; ++n) set.add(dispatch(plan, first + n).key);
    };
    add(0, setUp);
    // Chunks of rows differ only in how many rows they have: the first has all, the last in query
    // direction may have fewer.
    for (uint32_t rowChunk = 0; rowChunk < queryChunks; rowChunk += std::max(queryChunks - 1, 1u))
        add(setUp + rowChunk * perRowChunk, perRowChunk);
    const uint32_t checks = setUp + plan.rowChunks() * perRowChunk;
    add(checks, phases.checks);
    add(checks + plan.rowChunks() * phases.checks, phases.arrayChecks);
    return set;
}

uint64_t stagedGradient::storageDescriptorCount(const GradientPlan &plan) {
    return uint64_t{plan.dispatchCount} * plainSlots;
}

} // namespace vkattn
