// Parts of attention, put together: a workgroup takes a row.
#include "core/operations/operands.hpp"

namespace vkattn {
namespace {

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *) {
    // On CPUs a lane that has nothing to do takes as long as one that has. Mesa 22's software driver leaves a shader
    // after 65,535 iterations of all its loops: where there are many parts and dims, more lanes share them.
    constexpr uint32_t cpuLanes = 16, gpuLanes = 64, mostLanes = 256, mostIterations = 1u << 14;
    const auto iterations = [&](uint32_t lanes) { return divideUp(plan.operation.inner, 2 * lanes) * divideUp(plan.operation.parts, 4); };
    plan.lanes = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuLanes : gpuLanes;
    while (plan.lanes < mostLanes && 2 * plan.lanes <= caps.maxWorkgroupInvocations && iterations(plan.lanes) > mostIterations)
        plan.lanes *= 2;
    return VKATTN_OK;
}

void groups(const OperationPlan &, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = box.count[boxRow];
    out[1] = 1;
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    const bool storesLse = o.uses(VKATTN_LSE);
    MergePush push{};
    push.groups = box.count[boxGroup];
    push.dims = o.inner;
    push.parts = o.parts;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.yStrides = stridesOf(o, VKATTN_Y);
    push.partLseStrides = stridesOf(o, VKATTN_X_LSE);
    push.xPart = o.batch * push.xStrides.batch;
    push.partLsePart = o.batch * push.partLseStrides.batch;
    if (storesLse) push.lseStrides = stridesOf(o, VKATTN_LSE);
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(MergePush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(MergePush, yBase));
    d.operands[slotPartLse] = boxOperand(o, VKATTN_X_LSE, box, offsetof(MergePush, partLseBase));
    d.operands[slotMergedLse] = boxOperandOr(d.operands[slotX], o, VKATTN_LSE, box, offsetof(MergePush, lseBase));
    ConceptConstants constants{};
    constants.elementTypes = typesOf(o);
    constants.form = storesLse ? formLse : 0;
    d.key = pipelineKey(Module::merge, plan.lanes, constants, {plan.lanes});
    setGroups(d, groups, plan, box);
}

} // namespace

const Routine mergeRoutine = {
    .kind = VKATTN_MERGE,
    .name = "merge",
    .zone = "vkattn merge",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatch,
    // The parts of a box lie far apart, and the first of other boxes between them.
    .boxesSpanOthers = true,
};

} // namespace vkattn
