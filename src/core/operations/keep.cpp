// The bits of what dropout keeps. An invocation takes a word.
#include "core/operations/operands.hpp"
#include "problem/dropout.hpp"

namespace vkattn {
namespace {

constexpr uint32_t lanesOfBits = 64;

vkattn_result layOut(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.lanes = lanesOfBits;
    return VKATTN_OK;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(box.count[boxColumn], plan.lanes);
    out[1] = box.count[boxRow];
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    KeepPush push{};
    push.groups = box.count[boxGroup];
    push.words = box.count[boxColumn];
    push.rowFirst = box.first[boxRow];
    push.wordFirst = box.first[boxColumn];
    push.planeFirst = box.first[boxBatch] * o.groups + box.first[boxGroup];
    push.planesOfBatch = o.groups;
    push.columns = o.columns;
    push.threshold = static_cast<uint32_t>(o.dropoutThreshold);
    push.allBits = o.dropoutThreshold < dropoutRange ? 0xffffffffu : 0;
    push.seedLow = static_cast<uint32_t>(o.seed);
    push.seedHigh = static_cast<uint32_t>(o.seed >> 32);
    push.offset = o.dropoutOffset;
    push.yStrides = stridesOf(o, VKATTN_Y);
    setPush(d, push);
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(KeepPush, yBase));
    d.operands[slotX] = d.operands[2] = d.operands[3] = standIn(d.operands[slotY]);
    d.key = pipelineKey(Module::keep, plan.lanes, {});
    setGroups(d, groups, plan, box);
}

} // namespace

const Routine keepRoutine = {
    .kind = VKATTN_KEEP,
    .name = "keep",
    .zone = "vkattn keep",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow | 1u << boxColumn,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatch,
};

} // namespace vkattn
