// The dispatches of the staged kernel of gradients: per chunk of rows, with n chunks of keys,
//     facts | facts, scores x n | pairs x n for each term, dP x n | P and dS | dV | ... | dBias x n |
//     dots x n | dz | dQ | ... | dK | ... | sums of an array | ...
// as far as the problem has them, with a barrier at every bar. Scores, dP, dots and dQ are the
// dispatches of the forward pass (core/kernels/staged.cpp) on other operands. Behind all chunks come
// the checks of what was stored.
#include "core/kernels/staged.hpp"
#include "core/gradient/gradient_plan.hpp"
#include "core/plan/tuning/table.hpp"
#include "problem/dropout.hpp"

#include <algorithm>

namespace vkattn {
namespace {

using namespace stagedGradient;

constexpr uint32_t sumOfArray(vkattn_role role) {
    return role == VKATTN_D_SINKS    ? rowSumSinks
           : role == VKATTN_D_SLOPES ? rowSumSlopes
           : role == VKATTN_D_SCALE  ? rowSumScale
                                     : rowSumSoftcap;
}
// Returns the n-th of the arrays in use.
vkattn_role arrayNumber(const Gradient &g, uint32_t n) {
    for (const vkattn_role role : summedArrays)
        if (g.uses(role) && n-- == 0) return role;
    return VKATTN_D_SINKS;
}

// The forward pass's plan on a part of the workspace: no more than its dispatches touch, so that
// validation sees none of what others do beside them.
Plan viewOf(const GradientPlan &plan, uint64_t begin, uint64_t end) {
    Plan view = plan.forward;
    view.setUpBytes = begin;
    view.workspaceBytes = end;
    return view;
}
Plan viewOfScores(const GradientPlan &plan) {
    return viewOf(plan, plan.at.scores, plan.at.deltas);
}
Operand workspaceFrom(const GradientPlan &plan, uint64_t begin, bool writes) {
    return {VKATTN_WORKSPACE, begin, plan.at.end, begin, noPushWord, 4, writes};
}
uint32_t wordsBetween(uint64_t begin, uint64_t at) {
    return static_cast<uint32_t>((at - begin) / 4); // modulo 2^32
}

// Lanes of a workgroup that has a row. Longer rows take others.
uint32_t rowLanes(const GradientPlan &plan) {
    const StagedTuning &tuning = plan.forward.tuning;
    return tuning.softmaxLanes[plan.problem().keyTokens > maxKeysPerLane * tuning.softmaxLanes[manyRows] ? fewRows : manyRows];
}

// scores.comp on q and k of other roles.
void makeProducts(const GradientPlan &plan, const Chunk &c, Plan view, vkattn_role q, vkattn_role k, Dispatch &d) {
    view.problem.tensors[VKATTN_Q] = plan.gradient.tensor(q);
    view.problem.tensors[VKATTN_K] = plan.gradient.tensor(k);
    view.problem.headDim = view.problem.tensors[VKATTN_Q].extent[3];
    view.problem.scale = 1;
    view.problem.softcap = 0;
    staged::makeScores(view, c, d);
    d.operands[slotFirst].role = q;
    d.operands[slotSecond].role = k;
    if (d.operands[slotStagedLengths].role == VKATTN_Q) d.operands[slotStagedLengths].role = q; // a stand-in
}

void makePairDeltas(const GradientPlan &plan, const Chunk &c, Dispatch &d) {
    const Gradient &g = plan.gradient;
    const Problem &p = plan.problem();
    const bool deltas = plan.needsDeltas(), dWeights = g.uses(VKATTN_D_WEIGHTS) && p.keyTokens > 0 && deltas;
    const Tensor &weights = g.tensor(VKATTN_D_WEIGHTS);
    PairDeltasPush push{};
    setPosition(push, plan.forward, c);
    setChunk(push, plan.forward, c);
    push.deltasBase = wordsBetween(plan.at.scores, plan.at.deltas);
    push.factsBase = wordsBetween(plan.at.scores, plan.at.facts);
    push.sumsBase = wordsBetween(plan.at.scores, plan.at.rowSums);
    push.weightsBatch = stride(weights, 0), push.weightsHead = stride(weights, 1);
    push.weightsToken = stride(weights, 2), push.weightsKey = stride(weights, 3);
    push.seedLow = static_cast<uint32_t>(p.dropoutSeed), push.seedHigh = static_cast<uint32_t>(p.dropoutSeed >> 32);
    push.dropoutOffset = p.dropoutOffset;
    push.threshold = static_cast<uint32_t>(p.dropoutThreshold);
    push.planeFirst = c.batchFirst * p.heads + c.headFirst;
    push.planesOfBatch = p.heads;
    push.keptFactor = static_cast<float>(dropoutFactor(p.dropoutThreshold));
    push.headFirst = c.headFirst;
    setPush(d, push);
    d.operands[slotWorkspace] = workspaceFrom(plan, plan.at.scores, true);
    const bool sinks = g.has(VKATTN_D_SINKS);
    const Operand lengths = lengthsOperand(plan.forward, c, offsetof(PairDeltasPush, lengthsBase), d.operands[slotWorkspace]);
    d.operands[slotFirst] =
        dWeights ? tensorOperand(weights, VKATTN_D_WEIGHTS, false,
                                 {{c.batchFirst, c.headFirst, c.queryFirst, 0}, {c.batches, c.heads, c.queries, p.keyTokens}},
                                 {c.batchFirst, c.headFirst, c.queryFirst, 0}, offsetof(PairDeltasPush, weightsBase))
                 : standIn(lengths);
    d.operands[slotSecond] = sinks ? headsOperand(VKATTN_SINKS, c, offsetof(PairDeltasPush, sinksBase)) : standIn(lengths);
    d.operands[slotStagedLengths] = lengths;
    ConceptConstants constants{};
    constants.pairTerms = pairTermsOf(p) & (termsOfReach | termsOfDeltas);
    constants.elementTypes = static_cast<uint32_t>(weights.dtype) << typesWeights;
    constants.form = (dWeights ? formDWeights : 0u) | (p.weightsDropped ? formDropped : 0u) | (deltas ? formDeltas : 0u) |
                     (sinks ? formGatherSinks : 0u) |
                     (p.drops() ? formDrops | (p.dropoutThreshold >= dropoutRange ? formDropsAll : 0u) : 0u);
    const uint32_t lanes = rowLanes(plan);
    d.key = pipelineKey(Module::pairDeltas, lanes, constants, {lanes});
    d.groups[0] = c.queries;
    d.groups[1] = 1;
}

void makeCapDeltas(const GradientPlan &plan, const Chunk &c, Dispatch &d) {
    CapDeltasPush push{};
    setPosition(push, plan.forward, c);
    setChunk(push, plan.forward, c);
    push.deltasBase = wordsBetween(plan.at.scores, plan.at.deltas);
    push.sumsBase = wordsBetween(plan.at.scores, plan.at.rowSums);
    push.scale = plan.problem().scale;
    push.softcap = plan.problem().softcap;
    setPush(d, push);
    d.operands[slotWorkspace] = workspaceFrom(plan, plan.at.scores, true);
    d.operands[slotStagedLengths] = lengthsOperand(plan.forward, c, offsetof(CapDeltasPush, lengthsBase), d.operands[slotWorkspace]);
    d.operands[slotFirst] = d.operands[slotSecond] = standIn(d.operands[slotStagedLengths]);
    const uint32_t lanes = rowLanes(plan);
    d.key = pipelineKey(Module::capDeltas, lanes, {.pairTerms = pairTermsOf(plan.problem()) & termsOfReach}, {lanes});
    d.groups[0] = c.queries;
    d.groups[1] = 1;
}

// dV from the weights and dOut, or dK from dz and Q.
void makeColumns(const GradientPlan &plan, const Chunk &c, uint32_t rowChunk, bool values, Dispatch &d) {
    const Gradient &g = plan.gradient;
    const Problem &p = plan.problem();
    const vkattn_role rows = values ? VKATTN_D_OUT : VKATTN_Q, to = values ? VKATTN_D_V : VKATTN_D_K;
    const Tensor &r = g.tensor(rows), &out = g.tensor(to);
    const uint32_t group = p.groupSize(), dims = out.extent[3], sums = p.keyTokens * dims;
    const uint64_t begin = values ? plan.at.scores : plan.at.deltas;
    const uint32_t waiting = wordsBetween(begin, values ? plan.at.valueSums : plan.at.keySums);
    ColumnsPush push{};
    setPosition(push, plan.forward, c);
    setChunk(push, plan.forward, c);
    // Whether the first key head's rows begin in the chunk, and the last one's end there.
    if (c.headFirst % group == 0 && c.queryFirst == 0) push.flags |= flagFirstRows;
    if ((c.headFirst + c.heads) % group == 0 && c.queryFirst + c.queries == p.queryTokens) push.flags |= flagLastRows;
    push.groupSize = group;
    push.headPhase = c.headFirst % group;
    push.headFirst = c.headFirst;
    push.keyHeads = keyTokens(p, c).heads;
    push.dims = dims;
    push.sumsFrom = waiting + rowChunk % 2 * sums;
    push.sumsTo = waiting + (rowChunk + 1) % 2 * sums;
    push.factor = (values ? 1.0f : p.scale) / g.lossScale;
    push.rBatch = stride(r, 0), push.rHead = stride(r, 1), push.rToken = stride(r, 2), push.rDim = stride(r, 3);
    push.oBatch = stride(out, 0), push.oHead = stride(out, 1), push.oToken = stride(out, 2), push.oDim = stride(out, 3);
    setPush(d, push);
    d.operands[slotWorkspace] = workspaceFrom(plan, begin, true);
    d.operands[slotSecond] = gradientKeys(plan, to, c, offsetof(ColumnsPush, oBase));
    d.operands[slotFirst] = c.queries ? gradientRows(plan, rows, c, offsetof(ColumnsPush, rBase)) : standIn(d.operands[slotSecond]);
    d.operands[slotStagedLengths] = lengthsOperand(plan.forward, c, offsetof(ColumnsPush, lengthsBase), d.operands[slotFirst]);
    const StagedTuning &tuning = plan.forward.tuning;
    const TileShape &tile = tuning.values[dims <= tuning.narrowUpTo ? narrow : manyRows];
    const bool carried = out.dtype != VKATTN_F32;
    d.key = pipelineKey(Module::columns, tile.invocations(),
                        {.pairTerms = pairTermsOf(plan.problem()) & (termsOfReach | termsOfRules),
                         .elementTypes = static_cast<uint32_t>(r.dtype) | static_cast<uint32_t>(out.dtype) << typesOut,
                         .form = carried ? formCarried : 0u},
                        {tile.lanesX, tile.lanesY, tile.perLaneX, tile.perLaneY});
    d.groups[0] = divideUp(dims, tile.sizeX());
    d.groups[1] = divideUp(c.keys, tile.sizeY());
    d.groups[2] = c.batches * push.keyHeads;
}

// The part of dBias that belongs to a chunk.
Box biasBox(const Tensor &bias, const Chunk &c) {
    const bool keys = bias.extent[3] != 1;
    return {{c.batchFirst, c.headFirst, c.queryFirst, keys ? c.keyFirst : 0}, {c.batches, c.heads, c.queries, keys ? c.keys : 1}};
}
Operand biasOperand(const Tensor &bias, vkattn_role memory, const Chunk &c, size_t basePushByte) {
    const Box box = biasBox(bias, c);
    return tensorOperand(bias, memory, true, box, box.first, basePushByte);
}
uint32_t ownExtent(const Tensor &bias, int dimension, uint32_t ofChunk) {
    return bias.extent[dimension] == 1 ? 1 : ofChunk;
}

void makeBiasSums(const GradientPlan &plan, const Chunk &c, Dispatch &d) {
    const Gradient &g = plan.gradient;
    const Problem &p = plan.problem();
    const Tensor &bias = g.tensor(VKATTN_D_BIAS);
    const bool carried = plan.at.biasEnd > plan.at.biasSums;
    Tensor sums = bias; // as they wait, densely
    sums.dtype = VKATTN_F32;
    sums.offset = 0;
    sums.stride[3] = 1;
    for (int n = 2; n >= 0; --n) sums.stride[n] = sums.stride[n + 1] * sums.extent[n + 1];
    BiasSumsPush push{};
    setPosition(push, plan.forward, c);
    setChunk(push, plan.forward, c);
    // Whether no chunk before and none behind adds to the same elements.
    const bool first =
        (bias.extent[0] > 1 || c.batchFirst == 0) && (bias.extent[1] > 1 || c.headFirst == 0) && (bias.extent[2] > 1 || c.queryFirst == 0);
    const bool last = (bias.extent[0] > 1 || c.batchFirst + c.batches == p.batch) &&
                      (bias.extent[1] > 1 || c.headFirst + c.heads == p.heads) &&
                      (bias.extent[2] > 1 || c.queryFirst + c.queries == p.queryTokens);
    push.flags |= (first ? flagFirstRows : 0) | (last ? flagLastRows : 0);
    push.batches = c.batches;
    push.ownBatches = ownExtent(bias, 0, c.batches);
    push.ownHeads = ownExtent(bias, 1, c.heads);
    push.ownQueries = ownExtent(bias, 2, c.queries);
    push.ownKeys = ownExtent(bias, 3, c.keys);
    for (int n = 0; n < 4; ++n) push.broadcasts |= bias.extent[n] == 1 ? 1u << n : 0u;
    push.sumsBase = wordsBetween(plan.at.deltas, plan.at.rowSums);
    push.carryBatch = stride(sums, 0), push.carryHead = stride(sums, 1), push.carryQuery = stride(sums, 2);
    push.factor = 1.0f / g.lossScale;
    push.oBatch = stride(bias, 0), push.oHead = stride(bias, 1), push.oQuery = stride(bias, 2), push.oKey = stride(bias, 3);
    setPush(d, push);
    d.operands[slotWorkspace] = workspaceFrom(plan, plan.at.deltas, false);
    d.operands[slotFirst] = biasOperand(bias, VKATTN_D_BIAS, c, offsetof(BiasSumsPush, oBase));
    if (carried) {
        Operand waiting = biasOperand(sums, VKATTN_WORKSPACE, c, offsetof(BiasSumsPush, carryBase));
        waiting.beginBytes += plan.at.biasSums, waiting.endBytes += plan.at.biasSums, waiting.firstByte += plan.at.biasSums;
        d.operands[slotSecond] = waiting;
    } else {
        d.operands[slotSecond] = standIn(d.operands[slotFirst]);
    }
    d.operands[slotStagedLengths] = lengthsOperand(plan.forward, c, offsetof(BiasSumsPush, lengthsBase), d.operands[slotWorkspace]);
    const uint32_t lanes = plan.forward.tuning.pairLanes;
    d.key = pipelineKey(Module::biasSums, lanes,
                        {.elementTypes = static_cast<uint32_t>(bias.dtype) << typesOut, .form = carried ? formCarried : 0u});
    d.groups[0] = divideUp(push.ownKeys, lanes);
    d.groups[1] = push.ownQueries;
    d.groups[2] = push.ownBatches * push.ownHeads;
}

} // namespace

void makeRowSums(const GradientPlan &plan, const Chunk &c, uint32_t number, Dispatch &d) {
    const Gradient &g = plan.gradient;
    const Problem &p = plan.problem();
    const vkattn_role role = arrayNumber(g, number);
    const uint32_t lanes = plan.forward.tuning.sequenceLanes;
    const bool perHead = g.arrayLength(role) > 1 || role == VKATTN_D_SINKS || role == VKATTN_D_SLOPES;
    uint64_t before = 0; // sums of other arrays
    for (uint32_t n = 0; n < number; ++n) before += g.arrayLength(arrayNumber(g, n));
    const bool allHeads = !perHead;
    RowSumsPush push{};
    const bool first = c.batchFirst == 0 && c.queryFirst == 0 && (!allHeads || c.headFirst == 0);
    const bool last =
        c.batchFirst + c.batches == p.batch && c.queryFirst + c.queries == p.queryTokens && (!allHeads || c.headFirst + c.heads == p.heads);
    push.flags = (first ? flagFirstRows : 0) | (last ? flagLastRows : 0);
    push.queryFirst = c.queryFirst, push.queries = c.queries;
    push.heads = c.heads, push.batches = c.batches;
    push.perHead = perHead;
    push.sumsBase = wordsBetween(plan.at.scores, plan.at.rowSums);
    push.number = sumOfArray(role);
    push.carryBase = wordsBetween(plan.at.scores, plan.at.laneSums) + static_cast<uint32_t>(before + (perHead ? c.headFirst : 0)) * lanes;
    push.factor = 1.0f / g.lossScale;
    setPush(d, push);
    d.operands[slotWorkspace] = workspaceFrom(plan, plan.at.scores, true);
    d.operands[slotFirst] =
        perHead ? headsOperand(role, c, offsetof(RowSumsPush, outBase)) : arrayOperand(role, 0, 1, 0, offsetof(RowSumsPush, outBase));
    d.operands[slotFirst].writes = true;
    d.operands[slotSecond] = d.operands[slotStagedLengths] = standIn(d.operands[slotFirst]);
    d.key = pipelineKey(Module::rowSums, lanes, {}, {lanes});
    d.groups[0] = perHead ? c.heads : 1;
    d.groups[1] = d.groups[2] = 1;
}

namespace {

// A look at what a chunk has stored.
void makeCheck(const GradientPlan &plan, const Chunk &c, const Operand &stored, const Tensor &t, uint32_t tokensAre,
               const uint32_t (&count)[4], Dispatch &d) {
    NonfinitePush push{};
    setPosition(push, plan.forward, c);
    setChunk(push, plan.forward, c);
    push.flags |= tokensAre;
    push.groups = count[1];
    push.tokens = count[2];
    push.dims = count[3];
    push.oBatch = stride(t, 0), push.oHead = stride(t, 1), push.oToken = stride(t, 2), push.oDim = stride(t, 3);
    setPush(d, push);
    d.operands[slotWorkspace] = arrayOperand(VKATTN_NONFINITE, 0, 1, 0, offsetof(NonfinitePush, wordBase));
    d.operands[slotWorkspace].writes = true;
    d.operands[slotFirst] = stored;
    d.operands[slotFirst].basePushWord = offsetof(NonfinitePush, oBase) / 4;
    d.operands[slotFirst].writes = false;
    d.operands[slotSecond] = standIn(d.operands[slotFirst]);
    d.operands[slotStagedLengths] = lengthsOperand(plan.forward, c, offsetof(NonfinitePush, lengthsBase), d.operands[slotFirst]);
    const uint32_t lanes = plan.forward.tuning.pairLanes;
    d.key = pipelineKey(Module::nonfinite, lanes, {.elementTypes = static_cast<uint32_t>(t.dtype)});
    d.groups[0] = divideUp(count[3], lanes);
    d.groups[1] = count[2];
    d.groups[2] = count[0] * count[1];
}

void selectKeys(const GradientPlan &plan, uint32_t n, Chunk &c) {
    const Problem &p = plan.problem();
    c.keyFirst = n * plan.forward.chunkKeys;
    c.keys = p.keyTokens ? std::min(plan.forward.chunkKeys, p.keyTokens - c.keyFirst) : 0;
}

void makeTensorCheck(const GradientPlan &plan, Chunk c, uint32_t step, Dispatch &d) {
    const Gradient &g = plan.gradient;
    const Phases phases = phasesOf(plan);
    const uint32_t ofQueries = phases.count[phaseQueries] ? 1 : 0;
    if (step < ofQueries) {
        const Tensor &t = g.tensor(VKATTN_D_Q);
        return makeCheck(plan, c, gradientRows(plan, VKATTN_D_Q, c, 0), t, flagTokensOfRows, {c.batches, c.heads, c.queries, t.extent[3]},
                         d);
    }
    step -= ofQueries;
    for (const auto &[role, phase] : {std::pair{VKATTN_D_K, phaseKeys}, std::pair{VKATTN_D_V, phaseValues}}) {
        if (step < phases.count[phase]) {
            selectKeys(plan, step, c);
            const Tensor &t = g.tensor(role);
            return makeCheck(plan, c, gradientKeys(plan, role, c, 0), t, flagTokensOfKeys,
                             {c.batches, keyTokens(plan.problem(), c).heads, c.keys, t.extent[3]}, d);
        }
        step -= phases.count[phase];
    }
    selectKeys(plan, step, c);
    const Tensor &t = g.tensor(VKATTN_D_BIAS);
    makeCheck(plan, c, biasOperand(t, VKATTN_D_BIAS, c, 0), t, 0,
              {ownExtent(t, 0, c.batches), ownExtent(t, 1, c.heads), ownExtent(t, 2, c.queries), ownExtent(t, 3, c.keys)}, d);
}

} // namespace

void makeArrayCheck(const GradientPlan &plan, uint32_t number, Dispatch &d) {
    const vkattn_role role = arrayNumber(plan.gradient, number);
    const auto length = static_cast<uint32_t>(plan.gradient.arrayLength(role));
    Tensor t;
    t.extent[0] = t.extent[1] = t.extent[2] = 1;
    t.extent[3] = length;
    t.stride[3] = 1;
    Chunk c = rowsOfChunk(plan.forward, 0);
    makeCheck(plan, c, arrayOperand(role, 0, length, 0, 0), t, 0, {1, 1, 1, length}, d);
}

namespace {

// dQ from dz and K: values.comp.
void makeQueries(const GradientPlan &plan, const Chunk &c, bool firstKeys, bool lastKeys, Dispatch &d) {
    const Gradient &g = plan.gradient;
    Plan view = viewOf(plan, plan.at.deltas, plan.at.end);
    view.sumsOffset = wordsBetween(plan.at.deltas, plan.at.querySums);
    view.problem.tensors[VKATTN_V] = g.tensor(VKATTN_K);
    view.problem.tensors[VKATTN_OUT] = g.tensor(VKATTN_D_Q);
    view.problem.valueDim = view.problem.headDim;
    staged::makeValues(view, c, firstKeys, lastKeys, d);
    if (d.operands[slotFirst].role == VKATTN_V) d.operands[slotFirst].role = VKATTN_K;
    d.operands[slotSecond].role = VKATTN_D_Q;
    const float factor = plan.problem().scale / g.lossScale;
    std::memcpy(&d.pushWords[offsetof(ValuesPush, factor) / 4], &factor, sizeof factor);
    d.key.constants[constantForm] = formScaled;
}

} // namespace

Dispatch stagedGradient::dispatch(const GradientPlan &plan, uint32_t index) {
    Dispatch d;
    d.operandCount = plainSlots;
    const uint32_t setUp = plan.forward.setUpDispatches;
    if (index < setUp) {
        makeTable(plan.forward, index, d);
        return d;
    }
    const Phases phases = phasesOf(plan);
    const uint32_t perRowChunk = phases.perRowChunk(), inChunks = plan.rowChunks() * perRowChunk,
                   inChecks = plan.rowChunks() * phases.checks;
    uint32_t step = index - setUp;
    if (step >= inChunks) {
        d.barrierBefore = true; // each may write the word
        step -= inChunks;
        if (step < inChecks)
            makeTensorCheck(plan, rowsOfChunk(plan.forward, step / phases.checks), step % phases.checks, d);
        else
            makeArrayCheck(plan, step - inChecks, d);
        return d;
    }
    const uint32_t rowChunk = step / perRowChunk;
    step %= perRowChunk;
    uint32_t phase = 0;
    for (; step >= phases.count[phase]; ++phase) step -= phases.count[phase];
    Chunk c = rowsOfChunk(plan.forward, rowChunk);
    d.groups[2] = c.batches * c.heads;
    d.barrierBefore = step == 0 && index > 0;
    const uint32_t keyChunks = std::max(plan.problem().keyTokens ? plan.forward.keyChunks : 0, 1u);
    switch (static_cast<Phase>(phase)) {
    case phaseFacts:
        makeRowFacts(plan, c, step, d);
        d.barrierBefore = index > 0;
        break;
    case phaseScores: // beside the facts; the barrier before these is behind the chunk before
        selectKeys(plan, step, c);
        staged::makeScores(viewOfScores(plan), c, d);
        d.barrierBefore = false;
        break;
    case phasePairs:
        selectKeys(plan, step % keyChunks, c);
        staged::makePairs(viewOfScores(plan), c, staged::termsOfPairs(plan.problem(), termsOfDeltas), step / keyChunks, d);
        d.barrierBefore = step % keyChunks == 0;
        break;
    case phaseUpstream:
        selectKeys(plan, step, c);
        makeProducts(plan, c, viewOf(plan, plan.at.deltas, plan.at.facts), VKATTN_D_OUT, VKATTN_V, d);
        d.barrierBefore = false;
        break;
    case phaseDeltas:
        c.keys = plan.problem().keyTokens;
        makePairDeltas(plan, c, d);
        break;
    case phaseValues:
        selectKeys(plan, step, c);
        makeColumns(plan, c, rowChunk, true, d);
        d.barrierBefore = index > 0;
        break;
    case phaseBias:
        selectKeys(plan, step, c);
        makeBiasSums(plan, c, d);
        break;
    case phaseDots:
        selectKeys(plan, step, c);
        makeProducts(plan, c, viewOfScores(plan), VKATTN_Q, VKATTN_K, d);
        break;
    case phaseCaps:
        c.keys = plan.problem().keyTokens;
        makeCapDeltas(plan, c, d);
        break;
    case phaseQueries:
        selectKeys(plan, step, c);
        makeQueries(plan, c, step == 0, step + 1 == keyChunks, d);
        d.barrierBefore = index > 0;
        break;
    case phaseKeys:
        selectKeys(plan, step, c);
        makeColumns(plan, c, rowChunk, false, d);
        d.barrierBefore = index > 0;
        break;
    case phaseRowSums:
    case phaseCount:
        makeRowSums(plan, c, step, d);
        d.barrierBefore = index > 0;
        break;
    }
    return d;
}

} // namespace vkattn
