// The gradients of a norm: rows for dX, to which a residual is added, then sums over blocks of rows for
// dGamma and dBeta.
#include "core/operations/operands.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t columnLanes = 64;
// Rows that one invocation sums up: sums stay short, and the blocks of a box are few.
constexpr uint32_t blockRows = 64;

enum class Step { gamma, rows, residual, columns, sum };
constexpr uint32_t mostSteps = 5;
uint32_t stepsOf(const Operation &o, Step (&out)[mostSteps]) {
    uint32_t count = 0;
    if (o.uses(VKATTN_GAMMA) && o.uses(VKATTN_D_X)) out[count++] = Step::gamma;
    out[count++] = Step::rows;
    if (o.uses(VKATTN_RESIDUAL)) out[count++] = Step::residual;
    if (o.sumsOverRows()) {
        out[count++] = Step::columns;
        out[count++] = Step::sum;
    }
    return count;
}

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *) {
    Step steps[mostSteps];
    plan.steps = stepsOf(plan.operation, steps);
    plan.lanes = normLanes(plan.operation, caps);
    return VKATTN_OK;
}

uint32_t rowsOf(const uint32_t (&count)[4]) {
    return count[boxBatch] * count[boxGroup] * count[boxRow];
}

// Where everything lies in the workspace, in bytes. Totals outlive a box, and so lie where no size of
// a box moves them.
struct Places {
    uint64_t gamma = 0, totals, facts, partial, end;
    Places(const Operation &o, const uint32_t (&count)[4]) {
        const uint64_t row = uint64_t{4} * o.inner, rows = o.sumsOverRows() ? uint64_t{count[0]} * count[1] * count[2] : 0;
        totals = o.uses(VKATTN_GAMMA) && o.uses(VKATTN_D_X) ? row : 0;
        facts = totals + (o.sumsOverRows() ? 2 * row : 0);
        partial = facts + 12 * rows;
        end = partial + 2 * row * ((rows + blockRows - 1) / blockRows);
    }
};

uint64_t workspaceBytes(const OperationPlan &plan, const OperationBox &box) {
    return Places(plan.operation, box.count).end;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    const Operation &o = plan.operation;
    out[0] = std::max(box.count[boxRow], divideUp(o.inner, columnLanes));
    out[1] = o.sumsOverRows() ? (uint64_t{box.count[0]} * box.count[1] * box.count[2] + blockRows - 1) / blockRows : 1;
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
    raiseToAdd({1, 1, 1, o.inner}, out);
    if (o.uses(VKATTN_RESIDUAL)) raiseToAdd({box.count[boxBatch], box.count[boxGroup], box.count[boxRow], o.inner}, out);
}

uint32_t typeOf(const Operation &o, vkattn_role role) {
    return static_cast<uint32_t>(o.tensor(role).dtype);
}

void makeRows(const OperationPlan &plan, const OperationBox &box, const Places &at, Dispatch &d) {
    const Operation &o = plan.operation;
    NormGradientPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.dims = o.inner;
    push.epsilon = o.epsilon;
    push.factsBase = static_cast<uint32_t>((at.facts - at.gamma) / 4);
    push.xStrides = stridesOf(o, VKATTN_X);
    push.dXStrides = stridesOf(o, VKATTN_D_X);
    push.dYStrides = stridesOf(o, VKATTN_D_Y);
    setPush(d, push);
    const bool storesDX = o.uses(VKATTN_D_X), usesWorkspace = at.end > 0;
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(NormGradientPush, xBase));
    d.operands[slotDY] = boxOperand(o, VKATTN_D_Y, box, offsetof(NormGradientPush, dYBase));
    // One of the two is there, and written: a stand-in of what is only read would be a hazard.
    if (storesDX) d.operands[slotY] = boxOperand(o, VKATTN_D_X, box, offsetof(NormGradientPush, dXBase));
    if (usesWorkspace)
        d.operands[slotNormWorkspace] = gathered(at.gamma, at.partial, true, noPushWord);
    else
        d.operands[slotNormWorkspace] = standIn(d.operands[slotY]);
    if (!storesDX) d.operands[slotY] = standIn(d.operands[slotNormWorkspace]);
    ConceptConstants constants{};
    constants.elementTypes = typeOf(o, VKATTN_X) | typeOf(o, VKATTN_D_Y) << typesDY;
    if (storesDX) constants.elementTypes |= typeOf(o, VKATTN_D_X) << typesOut;
    constants.form = (o.norm == VKATTN_RMS_NORM ? formRms : 0) | (o.uses(VKATTN_GAMMA) && storesDX ? formGamma : 0) |
                     (storesDX ? formDX : 0) | (o.sumsOverRows() ? formFacts : 0);
    d.key = pipelineKey(Module::normGradient, plan.lanes, constants, {plan.lanes});
    setGroups(d, {box.count[boxRow], 1, uint64_t{box.count[boxBatch]} * box.count[boxGroup]});
}

// In place: the rows have bound four buffers already.
void addResidual(const Operation &o, const OperationBox &box, Dispatch &d) {
    AddOperand dX = addOperand(o, VKATTN_D_X, box);
    const AddOperand residual = addOperand(o, VKATTN_RESIDUAL, box), to = dX;
    dX.operand.writes = false;
    makeAdd(d, {box.count[boxBatch], box.count[boxGroup], box.count[boxRow], o.inner}, dX, &residual, to);
}

void makeColumns(const OperationPlan &plan, const OperationBox &box, const Places &at, Dispatch &d) {
    const Operation &o = plan.operation;
    NormGradientColumnsPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.dims = o.inner;
    push.allRows = rowsOf(box.count);
    push.blockRows = blockRows;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.dYStrides = stridesOf(o, VKATTN_D_Y);
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(NormGradientColumnsPush, xBase));
    d.operands[slotDY] = boxOperand(o, VKATTN_D_Y, box, offsetof(NormGradientColumnsPush, dYBase));
    d.operands[slotFacts] = gathered(at.facts, at.partial, false, offsetof(NormGradientColumnsPush, factsBase) / 4);
    d.operands[slotPartialSums] = gathered(at.partial, at.end, true, offsetof(NormGradientColumnsPush, partialBase) / 4);
    ConceptConstants constants{};
    constants.elementTypes = typeOf(o, VKATTN_X) | typeOf(o, VKATTN_D_Y) << typesDY;
    d.key = pipelineKey(Module::normGradientColumns, columnLanes, constants);
    setGroups(d, {divideUp(o.inner, columnLanes), divideUp(push.allRows, blockRows), 1});
}

void makeSum(const OperationPlan &plan, const OperationBox &box, const Places &at, Dispatch &d) {
    const Operation &o = plan.operation;
    NormGradientSumPush push{};
    push.dims = o.inner;
    push.blocks = divideUp(rowsOf(box.count), blockRows);
    push.firstBox = box.first[boxBatch] == 0 && box.first[boxGroup] == 0 && box.first[boxRow] == 0;
    push.dGammaStride = stridesOf(o, VKATTN_D_GAMMA).column;
    push.dBetaStride = stridesOf(o, VKATTN_D_BETA).column;
    setPush(d, push);
    ConceptConstants constants{};
    struct Place {
        vkattn_role role;
        uint32_t slot, type, form;
        size_t base;
    };
    constexpr Place places[] = {{VKATTN_D_GAMMA, slotDGamma, 0, formGamma, offsetof(NormGradientSumPush, dGammaBase)},
                                {VKATTN_D_BETA, slotDBeta, typesOut, formBeta, offsetof(NormGradientSumPush, dBetaBase)}};
    for (const Place &each : places) {
        if (!o.uses(each.role)) continue;
        d.operands[each.slot] = boxOperand(o, each.role, box, each.base);
        constants.elementTypes |= typeOf(o, each.role) << each.type;
        constants.form |= each.form;
    }
    for (const Place &each : places)
        if (!o.uses(each.role)) d.operands[each.slot] = standIn(d.operands[each.slot == slotDGamma ? slotDBeta : slotDGamma]);
    d.operands[slotBlocks] = gathered(at.partial, at.end, false, offsetof(NormGradientSumPush, partialBase) / 4);
    d.operands[slotTotals] = gathered(at.totals, at.facts, true, offsetof(NormGradientSumPush, totalsBase) / 4);
    d.key = pipelineKey(Module::normGradientSum, columnLanes, constants);
    setGroups(d, {divideUp(divideUp(o.inner, 2), columnLanes), 1, 1});
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t step, Dispatch &d) {
    const Operation &o = plan.operation;
    const Places at(o, plan.box);
    Step steps[mostSteps];
    stepsOf(o, steps);
    switch (steps[step]) {
    case Step::gamma:
        return makeAdd(d, {1, 1, 1, o.inner}, addOperand(o, VKATTN_GAMMA, box), nullptr,
                       {gathered(at.gamma, at.totals, true), {0, 0, 0, 1}, VKATTN_F32});
    case Step::rows:
        return makeRows(plan, box, at, d);
    case Step::residual:
        return addResidual(o, box, d);
    case Step::columns:
        return makeColumns(plan, box, at, d);
    case Step::sum:
        return makeSum(plan, box, at, d);
    }
}

} // namespace

const Routine normGradientRoutine = {
    .kind = VKATTN_NORM_GRADIENT,
    .name = "norm gradient",
    .zone = "vkattn norm gradient",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = workspaceBytes,
    .dispatch = dispatch,
};

} // namespace vkattn
