// Dropout of a layer's output. An invocation takes the four columns of a block of random words.
#include "core/operations/operands.hpp"
#include "problem/dropout.hpp"

namespace vkattn {
namespace {

constexpr uint32_t lanesOfBlocks = 64, columnsOfBlock = 4;

vkattn_result layOut(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.lanes = lanesOfBlocks;
    return VKATTN_OK;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(divideUp(plan.operation.inner, columnsOfBlock), plan.lanes);
    out[1] = box.count[boxRow];
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    const bool hasResidual = o.uses(VKATTN_RESIDUAL);
    DropPush push{};
    push.groups = box.count[boxGroup];
    push.columns = o.inner;
    push.rowFirst = o.firstRow + box.first[boxRow];
    push.planeFirst = o.plane(box.first[boxBatch], box.first[boxGroup]);
    push.planesOfBatch = o.groups;
    push.drops = o.dropoutThreshold > 0;
    push.lastDropped = static_cast<uint32_t>(o.dropoutThreshold - 1);
    push.factor = static_cast<float>(dropoutFactor(o.dropoutThreshold));
    push.seedLow = static_cast<uint32_t>(o.seed);
    push.seedHigh = static_cast<uint32_t>(o.seed >> 32);
    push.offset = o.dropoutOffset;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.yStrides = stridesOf(o, VKATTN_Y);
    if (hasResidual) push.residualStrides = stridesOf(o, VKATTN_RESIDUAL);
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(DropPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(DropPush, yBase));
    d.operands[slotResidual] = boxOperandOr(d.operands[slotX], o, VKATTN_RESIDUAL, box, offsetof(DropPush, residualBase));
    d.operands[3] = standIn(d.operands[slotX]);
    ConceptConstants constants{};
    constants.elementTypes = typesOf(o);
    if (hasResidual) constants.elementTypes |= static_cast<uint32_t>(o.tensor(VKATTN_RESIDUAL).dtype) << typesResidual;
    constants.form = hasResidual ? formResidual : 0;
    d.key = pipelineKey(Module::drop, plan.lanes, constants);
    setGroups(d, groups, plan, box);
}

} // namespace

const Routine dropRoutine = {
    .kind = VKATTN_DROP,
    .name = "drop",
    .zone = "vkattn drop",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatch,
};

} // namespace vkattn
