// Rows times the Hadamard matrix. A workgroup takes a piece of a row, of whole blocks.
#include "core/operations/operands.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint32_t mostLanes = 128;

static_assert(interop::hadamardPiece >= mostHadamardBlock, "shared memory has room for the largest block");

// Whole blocks, as many as shared memory has room for.
uint32_t pieceDims(const Operation &o) {
    return interop::hadamardPiece / o.block * o.block;
}

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *) {
    // A lane takes at least two dims.
    const uint32_t wanted = std::clamp(roundUp(divideUp(std::min(plan.operation.inner, pieceDims(plan.operation)), 2), 32), 32u, mostLanes);
    plan.lanes = std::min({wanted, caps.maxWorkgroupInvocations, caps.maxWorkgroupSize[0]});
    return VKATTN_OK;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(plan.operation.inner, pieceDims(plan.operation));
    out[1] = box.count[boxRow];
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    HadamardPush push{};
    push.groups = box.count[boxGroup];
    push.dims = o.inner;
    push.block = o.block;
    push.pieceDims = pieceDims(o);
    push.factor = static_cast<float>(1 / std::sqrt(static_cast<double>(o.block)));
    push.xStrides = stridesOf(o, VKATTN_X);
    push.yStrides = stridesOf(o, VKATTN_Y);
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(HadamardPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(HadamardPush, yBase));
    d.operands[2] = d.operands[3] = standIn(d.operands[slotX]);
    ConceptConstants constants{};
    constants.elementTypes = typesOf(o);
    d.key = pipelineKey(Module::hadamard, plan.lanes, constants);
    setGroups(d, groups, plan, box);
}

} // namespace

const Routine hadamardRoutine = {
    .kind = VKATTN_HADAMARD,
    .name = "hadamard",
    .zone = "vkattn hadamard",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatch,
};

} // namespace vkattn
