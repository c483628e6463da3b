// Layer norm and RMS norm: a workgroup takes a row.
#include "core/operations/operands.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {

uint32_t normLanes(const Operation &operation, const Caps &caps) {
    constexpr uint32_t cpuLanes = 16, gpuLanes = 128;
    // Longer rows take more lanes: Mesa 22's software driver silently leaves a shader after 65,535 iterations
    // of all its loops together (found 2026-11-23: dims past 600,000 were not written).
    constexpr uint32_t mostDimsOfCpuLanes = 1u << 16;
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && operation.inner <= mostDimsOfCpuLanes ? cpuLanes : gpuLanes;
}

namespace {

// Where a device has four buffers: gamma and beta are gathered as f32, and the sum is written first,
// a dispatch each.
enum class Step { gamma, beta, sum, norm };
uint32_t stepsOf(const OperationPlan &plan, Step (&out)[4]) {
    uint32_t count = 0;
    if (plan.plain) {
        if (plan.operation.uses(VKATTN_GAMMA)) out[count++] = Step::gamma;
        if (plan.operation.uses(VKATTN_BETA)) out[count++] = Step::beta;
        if (plan.operation.uses(VKATTN_SUM)) out[count++] = Step::sum;
    }
    out[count++] = Step::norm;
    return count;
}

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *) {
    Step steps[4];
    plan.steps = stepsOf(plan, steps);
    plan.gatherSteps = plan.steps - 1;
    plan.lanes = normLanes(plan.operation, caps);
    return VKATTN_OK;
}

bool gathers(const OperationPlan &plan) {
    return plan.plain && (plan.operation.uses(VKATTN_GAMMA) || plan.operation.uses(VKATTN_BETA));
}

uint64_t workspaceBytes(const OperationPlan &plan, const OperationBox &) {
    return gathers(plan) ? uint64_t{8} * plan.operation.inner : 0;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    const Operation &o = plan.operation;
    out[0] = box.count[boxRow];
    out[1] = 1;
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
    if (gathers(plan)) raiseToAdd({1, 1, 1, o.inner}, out);
    if (plan.plain && o.uses(VKATTN_SUM)) raiseToAdd({box.count[boxBatch], box.count[boxGroup], box.count[boxRow], o.inner}, out);
}

void gather(const OperationPlan &plan, const OperationBox &box, vkattn_role role, Dispatch &d) {
    const Operation &o = plan.operation;
    const uint64_t bytes = uint64_t{4} * o.inner, begin = role == VKATTN_BETA ? bytes : 0;
    makeAdd(d, {1, 1, 1, o.inner}, addOperand(o, role, box), nullptr, {gathered(begin, begin + bytes, true), {0, 0, 0, 1}, VKATTN_F32});
}

void writeSum(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    const bool adds = o.uses(VKATTN_RESIDUAL);
    const AddOperand residual = adds ? addOperand(o, VKATTN_RESIDUAL, box) : AddOperand{};
    makeAdd(d, {box.count[boxBatch], box.count[boxGroup], box.count[boxRow], o.inner}, addOperand(o, VKATTN_X, box),
            adds ? &residual : nullptr, addOperand(o, VKATTN_SUM, box));
}

void makeNorm(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    // The sum has been written: the norm is of the sum.
    const bool ofSum = plan.plain && o.uses(VKATTN_SUM);
    const vkattn_role from = ofSum ? VKATTN_SUM : VKATTN_X;
    NormPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.dims = o.inner;
    push.epsilon = o.epsilon;
    push.gammaStride = stridesOf(o, VKATTN_GAMMA).column;
    push.betaStride = stridesOf(o, VKATTN_BETA).column;
    push.xStrides = stridesOf(o, from);
    push.yStrides = stridesOf(o, VKATTN_Y);
    push.residualStrides = stridesOf(o, VKATTN_RESIDUAL);
    push.sumStrides = stridesOf(o, VKATTN_SUM);
    setPush(d, push);

    struct Place {
        vkattn_role role;
        uint32_t slot, type, form;
        size_t base;
    };
    constexpr Place optional[] = {{VKATTN_RESIDUAL, slotResidual, typesResidual, formResidual, offsetof(NormPush, residualBase)},
                                  {VKATTN_GAMMA, slotGamma, typesGamma, formGamma, offsetof(NormPush, gammaBase)},
                                  {VKATTN_BETA, slotBeta, typesBeta, formBeta, offsetof(NormPush, betaBase)},
                                  {VKATTN_SUM, slotSum, typesSum, formSum, offsetof(NormPush, sumBase)}};
    const auto type = [&](vkattn_role role) { return static_cast<uint32_t>(o.tensor(role).dtype); };
    const Module module = plan.plain ? Module::normPlain : Module::norm;
    ConceptConstants constants{};
    constants.elementTypes = type(from) | type(VKATTN_Y) << typesOut;
    constants.form = o.norm == VKATTN_RMS_NORM ? formRms : 0;
    d.operands[slotX] = boxOperand(o, from, box, offsetof(NormPush, xBase));
    d.operands[slotX].writes = false;
    for (uint32_t slot = slotX + 1; slot < infoOf(module).slots; ++slot) d.operands[slot] = standIn(d.operands[slotX]);
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(NormPush, yBase));
    // Validation layers take a binding that a shader may write for written: x would be a hazard.
    if (!plan.plain) d.operands[slotSum] = standIn(d.operands[slotY]);
    for (const Place &place : optional) {
        const bool inSum = ofSum && (place.role == VKATTN_RESIDUAL || place.role == VKATTN_SUM);
        if (!o.uses(place.role) || inSum) continue;
        constants.form |= place.form;
        const bool parameter = plan.plain && (place.role == VKATTN_GAMMA || place.role == VKATTN_BETA);
        if (parameter) continue;
        d.operands[place.slot] = boxOperand(o, place.role, box, place.base);
        constants.elementTypes |= type(place.role) << place.type;
    }
    if (gathers(plan)) d.operands[slotParameters] = gathered(0, workspaceBytes(plan, box), false);
    d.key = pipelineKey(module, plan.lanes, constants, {plan.lanes});
    setGroups(d, {box.count[boxRow], 1, uint64_t{box.count[boxBatch]} * box.count[boxGroup]});
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t step, Dispatch &d) {
    Step steps[4];
    (void)stepsOf(plan, steps);
    switch (steps[step]) {
    case Step::gamma:
        return gather(plan, box, VKATTN_GAMMA, d);
    case Step::beta:
        return gather(plan, box, VKATTN_BETA, d);
    case Step::sum:
        return writeSum(plan, box, d);
    case Step::norm:
        return makeNorm(plan, box, d);
    }
}

} // namespace

const Routine normRoutine = {
    .kind = VKATTN_NORM,
    .name = "norm",
    .zone = "vkattn norm",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = workspaceBytes,
    .dispatch = dispatch,
};

} // namespace vkattn
