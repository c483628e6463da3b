// The projection: tiles of rows and columns, over blocks of the inner dim.
#include "core/operations/operands.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Tiles: one fact a row. On CPU devices a row of X stays with its lane, and a load feeds many
// multiply-adds: 8 x 32 with blocks of 8 ran 2 to 3 times as fast as 4 x 16 on Mesa 26 and Mesa 22
// (2026-11-22). Those of GPUs were not measured.
constexpr ProjectionTile cpuShuffled(uint32_t lanes) {
    return {.form = ProjectionForm::shuffled,
            .columnLanes = 1,
            .rowLanes = lanes,
            .columnsPerLane = 32,
            .rowsPerLane = 8,
            .blockInner = std::max(lanes, 8u)};
}
constexpr ProjectionTile cpuShared = {
    .form = ProjectionForm::shared, .columnLanes = 8, .rowLanes = 8, .columnsPerLane = 4, .rowsPerLane = 4, .blockInner = 8};
constexpr ProjectionTile gpuShared = {
    .form = ProjectionForm::shared, .columnLanes = 16, .rowLanes = 8, .columnsPerLane = 4, .rowsPerLane = 8, .blockInner = 16};
constexpr ProjectionTile cpuFew = {
    .form = ProjectionForm::few, .columnLanes = 1, .rowLanes = 8, .columnsPerLane = 8, .rowsPerLane = 4, .blockInner = 8};
constexpr ProjectionTile gpuFew = {
    .form = ProjectionForm::few, .columnLanes = 1, .rowLanes = 64, .columnsPerLane = 4, .rowsPerLane = 4, .blockInner = 64};
constexpr uint32_t fewRows = 8; // up to which W is read once for all rows

ProjectionTile tileFor(const Operation &operation, const Caps &caps) {
    const bool cpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    // How many rows there are must not decide how sums are taken where bits must not depend on it.
    if (operation.rows <= fewRows && !(operation.flags & VKATTN_DETERMINISTIC)) return cpu ? cpuFew : gpuFew;
    if (cpu && caps.subgroupShuffle && caps.subgroupSize >= 4 && caps.subgroupSize <= 16) return cpuShuffled(caps.subgroupSize);
    const bool large = gpuShared.lanes() <= caps.maxWorkgroupInvocations;
    return cpu || !large ? cpuShared : gpuShared;
}

Module moduleOf(ProjectionForm form, bool secondAddend) {
    switch (form) {
    case ProjectionForm::shuffled:
        return secondAddend ? Module::projectionTwoShuffled : Module::projectionShuffled;
    case ProjectionForm::few:
        return secondAddend ? Module::projectionTwoFew : Module::projectionFew;
    default:
        return secondAddend ? Module::projectionTwo : Module::projection;
    }
}

// The specialization constants of a form's own.
PipelineKey keyOf(const ProjectionTile &tile, bool secondAddend, const ConceptConstants &constants) {
    const Module module = moduleOf(tile.form, secondAddend);
    switch (tile.form) {
    case ProjectionForm::shuffled:
        return pipelineKey(module, tile.lanes(), constants, {tile.rowLanes, tile.rowsPerLane, tile.columnsPerLane, tile.blockInner});
    case ProjectionForm::few:
        return pipelineKey(module, tile.lanes(), constants, {tile.lanes(), tile.rowsPerLane, tile.columnsPerLane});
    default:
        return pipelineKey(module, tile.lanes(), constants,
                           {tile.columnLanes, tile.rowLanes, tile.columnsPerLane, tile.rowsPerLane, tile.blockInner});
    }
}

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
    plan.tile = tileFor(plan.operation, caps);
    plan.lanes = plan.tile.lanes();
}

uint64_t workspaceBytes(const OperationPlan &plan, const OperationBox &box) {
    return gathers(plan) ? uint64_t{4} * box.count[boxBatch] * box.count[boxGroup] * box.count[boxRow] * box.count[boxColumn] : 0;
}

void tileGroups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(box.count[boxColumn], plan.tile.columns());
    out[1] = divideUp(box.count[boxRow], plan.tile.rows());
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

// Addends are gathered row by row, in more workgroups than there are tiles.
void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    tileGroups(plan, box, out);
    if (gathers(plan)) raiseToAdd(box.count, out);
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
    const auto adjacent = [&](vkattn_role role) { return o.tensor(role).unitDims(); };
    if (o.inner % plan.tile.blockInner == 0) constants.form |= formWholeInner;
    if (adjacent(VKATTN_X) && adjacent(VKATTN_W)) constants.form |= formAdjacentInner;
    d.key = keyOf(plan.tile, count > 1, constants);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(ProjectionPush, xBase));
    for (uint32_t slot = slotX + 1; slot < infoOf(d.key.module).slots; ++slot) d.operands[slot] = standIn(d.operands[slotX]);
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(ProjectionPush, yBase));
    d.operands[slotW] = boxOperand(o, VKATTN_W, box, offsetof(ProjectionPush, wBase));
    if (gathers(plan))
        d.operands[slotFirstAddend] = gathered(0, workspaceBytes(plan, box), offsetof(ProjectionPush, firstBase), false);
    else if (count > 0)
        d.operands[slotFirstAddend] = boxOperand(o, roles[0], box, offsetof(ProjectionPush, firstBase));
    if (count > 1) d.operands[slotSecondAddend] = boxOperand(o, roles[1], box, offsetof(ProjectionPush, secondBase));
    uint64_t count3[3];
    tileGroups(plan, box, count3);
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
