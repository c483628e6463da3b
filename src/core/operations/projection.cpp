// The projection: tiles of rows and columns, over blocks of the inner dim.
#include "core/operations/operands.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

// One measured fact a row.
constexpr ProjectionTile cpuTile = {.columnLanes = 8, .rowLanes = 8, .columnsPerLane = 4, .rowsPerLane = 4, .blockInner = 8};
constexpr ProjectionTile gpuTile = {.columnLanes = 16, .rowLanes = 8, .columnsPerLane = 4, .rowsPerLane = 8, .blockInner = 16};

// The roles of the addends, in the order of the bindings.
uint32_t addends(const Operation &operation, vkattn_role (&out)[2]) {
    uint32_t count = 0;
    for (const vkattn_role role : {VKATTN_BIAS, VKATTN_RESIDUAL})
        if (operation.uses(role)) out[count++] = role;
    return count;
}

// Where a device has four buffers, the sum of two addends is gathered first.
bool gathers(const OperationPlan &plan) {
    return plan.steps > 1;
}

void layOut(OperationPlan &plan, const Caps &caps) {
    vkattn_role roles[2];
    if (plan.plain && addends(plan.operation, roles) == 2) plan.steps = 2;
    plan.tile = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuTile : gpuTile;
    if (plan.tile.columnLanes * plan.tile.rowLanes > caps.maxWorkgroupInvocations) plan.tile = cpuTile;
    plan.lanes = plan.tile.columnLanes * plan.tile.rowLanes;
}

uint64_t workspaceBytes(const OperationPlan &plan, const OperationBox &box) {
    return gathers(plan) ? uint64_t{4} * box.count[boxBatch] * box.count[boxGroup] * box.count[boxRow] * box.count[boxColumn] : 0;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(box.count[boxColumn], plan.tile.columns());
    out[1] = divideUp(box.count[boxRow], plan.tile.rows());
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

// A box of f32, densely packed.
Strides packedStrides(const OperationBox &box) {
    const uint32_t columns = box.count[boxColumn], group = columns * box.count[boxRow];
    return {group * box.count[boxGroup], group, columns, 1};
}

void gatherAddends(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    const auto of = [&](vkattn_role role) { return AddOperand{boxOperand(o, role, box, 0), stridesOf(o, role), o.tensor(role).dtype}; };
    const AddOperand bias = of(VKATTN_BIAS);
    makeAdd(d, box.count, of(VKATTN_RESIDUAL), &bias, {gathered(0, workspaceBytes(plan, box), 0, true), packedStrides(box), VKATTN_F32});
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t step, Dispatch &d) {
    if (step + 1 < plan.steps) return gatherAddends(plan, box, d);
    const Operation &o = plan.operation;
    vkattn_role roles[2];
    const uint32_t count = gathers(plan) ? 1 : addends(o, roles);
    ProjectionPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.columns = box.count[boxColumn];
    push.inner = o.inner;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.wStrides = stridesOf(o, VKATTN_W);
    push.yStrides = stridesOf(o, VKATTN_Y);
    const auto type = [&](vkattn_role role) { return static_cast<uint32_t>(o.tensor(role).dtype); };
    ConceptConstants constants{};
    constants.elementTypes = type(VKATTN_X) | type(VKATTN_Y) << typesOut | type(VKATTN_W) << typesW;
    constants.form = count > 0 ? formFirstAddend : 0;
    if (gathers(plan)) {
        push.firstStrides = packedStrides(box);
    } else {
        if (count > 0) push.firstStrides = stridesOf(o, roles[0]), constants.elementTypes |= type(roles[0]) << typesFirstAddend;
        if (count > 1) push.secondStrides = stridesOf(o, roles[1]), constants.elementTypes |= type(roles[1]) << typesSecondAddend;
    }
    setPush(d, push);
    const Module module = count > 1 ? Module::projectionTwo : Module::projection;
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(ProjectionPush, xBase));
    for (uint32_t slot = slotX + 1; slot < infoOf(module).slots; ++slot) d.operands[slot] = standIn(d.operands[slotX]);
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(ProjectionPush, yBase));
    d.operands[slotW] = boxOperand(o, VKATTN_W, box, offsetof(ProjectionPush, wBase));
    if (gathers(plan))
        d.operands[slotFirstAddend] = gathered(0, workspaceBytes(plan, box), offsetof(ProjectionPush, firstBase), false);
    else if (count > 0)
        d.operands[slotFirstAddend] = boxOperand(o, roles[0], box, offsetof(ProjectionPush, firstBase));
    if (count > 1) d.operands[slotSecondAddend] = boxOperand(o, roles[1], box, offsetof(ProjectionPush, secondBase));
    const ProjectionTile &tile = plan.tile;
    d.key = pipelineKey(module, plan.lanes, constants,
                        {tile.columnLanes, tile.rowLanes, tile.columnsPerLane, tile.rowsPerLane, tile.blockInner});
    uint64_t count3[3];
    groups(plan, box, count3);
    setGroups(d, count3[0], count3[1], count3[2]);
}

} // namespace

const Routine projectionRoutine = {
    .kind = VKATTN_PROJECTION,
    .name = "projection",
    .zone = "vkattn projection",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow | 1u << boxColumn,
    .layOut = layOut,
    .groups = groups,
    .workspaceBytes = workspaceBytes,
    .dispatch = dispatch,
};

} // namespace vkattn
