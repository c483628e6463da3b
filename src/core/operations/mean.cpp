// Mean over groups: an invocation takes two neighbouring dims of a row.
#include "core/operations/operands.hpp"

namespace vkattn {
namespace {

constexpr uint32_t lanesOfDims = 64;

vkattn_result layOut(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.lanes = lanesOfDims;
    return VKATTN_OK;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(divideUp(plan.operation.inner, 2), plan.lanes);
    out[1] = box.count[boxRow];
    out[2] = box.count[boxBatch];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    MeanPush push{};
    push.groups = o.averaged;
    push.columns = o.inner;
    push.share = static_cast<float>(1.0 / o.averaged);
    push.xStrides = stridesOf(o, VKATTN_X);
    push.yStrides = stridesOf(o, VKATTN_Y);
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(MeanPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(MeanPush, yBase));
    d.operands[2] = d.operands[3] = standIn(d.operands[slotX]);
    ConceptConstants constants{};
    constants.elementTypes = typesOf(o);
    d.key = pipelineKey(Module::mean, plan.lanes, constants);
    setGroups(d, groups, plan, box);
}

} // namespace

const Routine meanRoutine = {
    .kind = VKATTN_MEAN,
    .name = "mean",
    .zone = "vkattn mean",
    .cuttable = 1u << boxBatch | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatch,
};

} // namespace vkattn
