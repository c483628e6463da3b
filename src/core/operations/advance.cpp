// Advance: counters move on. An invocation takes a word.
#include "core/operations/operands.hpp"

namespace vkattn {
namespace {

constexpr uint32_t lanesOfWords = 64;

vkattn_result layOut(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.lanes = lanesOfWords;
    return VKATTN_OK;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(box.count[boxRow], plan.lanes);
    out[1] = out[2] = 1;
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    AdvancePush push{};
    push.words = box.count[boxRow];
    push.by = o.by;
    push.limit = o.limit;
    push.xStride = stridesOf(o, VKATTN_X).column;
    push.yStride = stridesOf(o, VKATTN_Y).column;
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(AdvancePush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(AdvancePush, yBase));
    d.operands[2] = d.operands[3] = standIn(d.operands[slotX]);
    d.key = pipelineKey(Module::advance, plan.lanes, {});
    setGroups(d, groups, plan, box);
}

} // namespace

const Routine advanceRoutine = {
    .kind = VKATTN_ADVANCE,
    .name = "advance",
    .zone = "vkattn advance",
    .cuttable = 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatch,
};

} // namespace vkattn
