// The dispatches of the fused kernels of gradients. Once a plan: the table of sequences of a ragged
// batch, and the environment. Then, for each chunk of whole key heads: facts | facts | rows | ... |
// keys | ... | sums of an array | ..., with a barrier at every bar. Behind all chunks come the checks of arrays.
#include "core/gradient/gradient_plan.hpp"
#include "core/kernels/flash.hpp"

#include <algorithm>

namespace vkattn {
namespace {

static_assert(sizeof(GradientEnvironment) == 4 * gradientEnvironmentWords);

GradientEnvironment environmentOf(const GradientPlan &plan) {
    const Problem &p = plan.problem();
    const Gradient &g = plan.gradient;
    Environment forward{};
    setReach(forward, p);
    forward.flags |= p.has(VKATTN_SINKS) ? flagSinks : 0;
    forward.dims = p.headDim | p.valueDim << 16;
    flash::setOptionWords(forward, p);
    const Tensor &dOut = g.tensor(VKATTN_D_OUT);
    forward.oBatch = stride(dOut, 0), forward.oHead = stride(dOut, 1), forward.oToken = stride(dOut, 2);
    forward.oDim = flash::dimStride(dOut);
    GradientEnvironment e{};
    std::memcpy(&e, &forward, sizeof forward);
    e.dqStrides = passStrides(g.tensor(VKATTN_D_Q));
    e.dkStrides = passStrides(g.tensor(VKATTN_D_K));
    e.dvStrides = passStrides(g.tensor(VKATTN_D_V));
    e.factor = 1.0f / g.lossScale;
    return e;
}

Operand workspacePart(uint64_t begin, uint64_t end, size_t basePushByte, bool writes) {
    return {VKATTN_WORKSPACE, begin, end, begin, static_cast<uint32_t>(basePushByte / 4), 4, writes};
}

uint32_t typeOf(const Tensor &t) {
    return static_cast<uint32_t>(t.dtype);
}

// The part-th dispatch of a pass.
void makePass(const GradientPlan &plan, const Chunk &c, bool keys, uint32_t part, Dispatch &d) {
    const Problem &p = plan.problem();
    const Gradient &g = plan.gradient;
    const GradientPass &pass = keys ? plan.tiles.keys : plan.tiles.rows;
    const PassTile &tile = pass.tile;
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(VKATTN_K), &v = p.tensor(VKATTN_V);
    const uint64_t rows = uint64_t{c.batches} * c.heads * c.queries;
    const bool sums = !keys && tiledGradient::sumsRows(plan), nonfinite = g.has(VKATTN_NONFINITE);
    const vkattn_role head = keys ? VKATTN_D_K : VKATTN_D_Q;
    GradientPush push{};
    push.queries = c.queries;
    push.keys = c.keys;
    push.headsAndPacked = c.heads | 1u << 16;
    push.groupAndPhase = p.groupSize();
    push.ownedFirst = part * pass.groupsAtOnce * tile.owned();
    push.scale = p.scale;
    push.qBatch = stride(q, 0), push.qHead = stride(q, 1), push.qToken = stride(q, 2);
    push.kBatch = stride(k, 0), push.kHead = stride(k, 1), push.kToken = stride(k, 2);
    push.vBatch = stride(v, 0), push.vHead = stride(v, 1), push.vToken = stride(v, 2);
    push.headFirst = c.headFirst;
    push.planeFirst = planeFirst(p, c);
    setPush(d, push);

    d.operandCount = gradientSlots;
    d.operands[slotQ] = rowsOperand(p, VKATTN_Q, c, offsetof(GradientPush, qBase));
    std::fill(d.operands + slotK, d.operands + gradientSlots, standIn(d.operands[slotQ]));
    d.operands[slotK] = keysOperand(p, VKATTN_K, c, offsetof(GradientPush, kBase));
    d.operands[slotV] = keysOperand(p, VKATTN_V, c, offsetof(GradientPush, vBase));
    d.operands[slotDOut] = gradientRows(plan, VKATTN_D_OUT, c, offsetof(GradientPush, oBase));
    d.operands[slotEnvironment] = flash::environmentOperand(plan.forward, sizeof(GradientEnvironment), false);
    d.operands[slotLengths] = lengthsOperand(plan.forward, c, offsetof(GradientPush, lengthsBase), d.operands[slotQ]);
    d.operands[slotRowFacts] =
        workspacePart(plan.at.facts, plan.at.facts + 4 * rowFactWords * rows, offsetof(GradientPush, lseBase), false);
    for (const PairTermOperand &each : pairTermOperands)
        if (each.slot != noSlot && p.uses(each.role)) d.operands[each.slot] = chunkOperand(p, each.role, c, each.base);
    if (pass.head)
        d.operands[slotHeadGradient] = keys ? gradientKeys(plan, head, c, offsetof(GradientPush, headGradientBase))
                                            : gradientRows(plan, head, c, offsetof(GradientPush, headGradientBase));
    if (pass.value) d.operands[slotValueGradient] = gradientKeys(plan, VKATTN_D_V, c, offsetof(GradientPush, valueGradientBase));
    if (sums)
        d.operands[slotValueGradient] =
            workspacePart(plan.at.rowSums, plan.at.rowSums + 4 * rowSumWords * rows, offsetof(GradientPush, valueGradientBase), true);
    if (nonfinite) {
        d.operands[slotNonfinite] = arrayOperand(VKATTN_NONFINITE, 0, 1, 0, offsetof(GradientPush, nonfiniteBase));
        d.operands[slotNonfinite].writes = true;
    }
    // Shaders write these bindings, and a validation layer cannot see that this dispatch does not.
    const Operand &written = d.operands[pass.head ? slotHeadGradient : slotValueGradient];
    for (const uint32_t slot : {slotHeadGradient, slotValueGradient, slotNonfinite})
        if (!d.operands[slot].writes) d.operands[slot] = standIn(written);

    const ConceptConstants concepts = {
        .kvFormat = kvFormat(p, pass.dimOrder),
        .pairTerms = plan.tiles.pairTerms,
        .elementTypes = elementType(p, VKATTN_Q) | typeOf(g.tensor(VKATTN_D_OUT)) << typesOut |
                        typeOf(g.tensor(head)) << typesHeadGradient | typeOf(g.tensor(VKATTN_D_V)) << typesValueGradient,
        .form = (sums ? formRowSums : 0) | (nonfinite ? formNonfinite : 0) | (pass.head ? formHeadGradient : 0) |
                (pass.value ? formValueGradient : 0) | plan.forward.orderForm};
    d.groups[0] = std::min(divideUp(keys ? c.keys : c.queries, tile.owned()) - part * pass.groupsAtOnce, pass.groupsAtOnce);
    d.groups[1] = 1;
    d.groups[2] = c.batches * (keys ? c.heads / p.groupSize() : c.heads);
    if (tile.source == sourceMatrices) {
        d.key = matrixGradient::pipelineKey(plan, keys, concepts);
        return;
    }
    const bool exact = tile.dimLanes * pass.dimsPerLane == p.headDim && tile.dimLanes * pass.valueDimsPerLane == p.valueDim;
    ConceptConstants ofLanes = concepts;
    ofLanes.form |= (exact ? formExactDims : 0) | (tile.rolledEdges ? formRolledEdges : 0) | tile.source << formSource;
    d.key = pipelineKey(keys ? Module::gradientKeys : Module::gradientRows, tile.invocations(), ofLanes,
                        {tile.dimLanes, tile.ownerLanes, tile.ownedPerLane, tile.stepItems, pass.dimsPerLane, pass.valueDimsPerLane,
                         tile.tileItems, plan.tiles.shuffleLanes, pass.run, pass.valueRun});
}

} // namespace

Dispatch tiledGradient::dispatch(const GradientPlan &plan, uint32_t index) {
    Dispatch d;
    d.operandCount = plainSlots;
    const uint32_t setUp = plan.forward.setUpDispatches;
    if (index < setUp) {
        flash::makeSetUp(plan.forward, sizeof(GradientEnvironment), flash::wordsOf<gradientEnvironmentWords>(environmentOf(plan)),
                         Module::gradientEnvironment, index, d);
        return d;
    }
    const Phases phases = phasesOf(plan);
    const uint32_t perChunk = phases.perChunk(), inChunks = plan.rowChunks() * perChunk;
    uint32_t step = index - setUp;
    if (step >= inChunks) {
        d.barrierBefore = true; // each may write the word
        makeArrayCheck(plan, step - inChunks, d);
        return d;
    }
    Chunk c = rowsOfChunk(plan.forward, step / perChunk);
    c.keys = plan.problem().keyTokens;
    step %= perChunk;
    d.groups[2] = c.batches * c.heads;
    // The second dispatch of the facts goes on from the first.
    d.barrierBefore = step <= rowFactDispatches;
    if (step < rowFactDispatches) {
        makeRowFacts(plan, c, step, d);
    } else if ((step -= rowFactDispatches) < phases.rows + phases.keys) {
        const bool keys = step >= phases.rows;
        makePass(plan, c, keys, keys ? step - phases.rows : step, d);
        // dQ and dK may be columns of one matrix: the ranges that the passes write overlap then, and 16-bit
        // elements of both may share a word. Parts of a pass may share one too.
        d.barrierBefore = true;
    } else {
        step -= phases.rows + phases.keys;
        d.barrierBefore = true;
        makeRowSums(plan, c, step, d);
    }
    return d;
}

} // namespace vkattn
