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

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *why) {
    vkattn_role roles[2];
    plan.module = addends(plan.operation, roles) == 2 ? Module::projectionTwo : Module::projection;
    if (const uint32_t slots = infoOf(plan.module).slots; slots > caps.maxStorageBuffersPerStage)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "a projection with a bias and a residual needs %u storage buffers; the device's maxPerStageDescriptorStorageBuffers is "
                    "%u. Give the two to two operations, or use the CPU",
                    slots, caps.maxStorageBuffersPerStage);
    plan.tile = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuTile : gpuTile;
    plan.lanes = plan.tile.columnLanes * plan.tile.rowLanes;
    return VKATTN_OK;
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(box.count[boxColumn], plan.tile.columns());
    out[1] = divideUp(box.count[boxRow], plan.tile.rows());
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    vkattn_role roles[2];
    const uint32_t count = addends(o, roles);
    ProjectionPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.columns = box.count[boxColumn];
    push.inner = o.inner;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.wStrides = stridesOf(o, VKATTN_W);
    push.yStrides = stridesOf(o, VKATTN_Y);
    if (count > 0) push.firstStrides = stridesOf(o, roles[0]);
    if (count > 1) push.secondStrides = stridesOf(o, roles[1]);
    setPush(d, push);
    const auto type = [&](vkattn_role role) { return static_cast<uint32_t>(o.tensor(role).dtype); };
    ConceptConstants constants{};
    constants.elementTypes = type(VKATTN_X) | type(VKATTN_Y) << typesOut | type(VKATTN_W) << typesW;
    if (count > 0) constants.elementTypes |= type(roles[0]) << typesFirstAddend;
    if (count > 1) constants.elementTypes |= type(roles[1]) << typesSecondAddend;
    constants.form = count > 0 ? formFirstAddend : 0;
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(ProjectionPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(ProjectionPush, yBase));
    d.operands[slotW] = boxOperand(o, VKATTN_W, box, offsetof(ProjectionPush, wBase));
    d.operands[slotFirstAddend] =
        count > 0 ? boxOperand(o, roles[0], box, offsetof(ProjectionPush, firstBase)) : standIn(d.operands[slotX]);
    for (uint32_t slot = slotSecondAddend; slot < d.operandCount; ++slot)
        d.operands[slot] = slot == slotSecondAddend && count > 1 ? boxOperand(o, roles[1], box, offsetof(ProjectionPush, secondBase))
                                                                 : standIn(d.operands[slotX]);
    const ProjectionTile &tile = plan.tile;
    d.key = pipelineKey(plan.module, plan.lanes, constants,
                        {tile.columnLanes, tile.rowLanes, tile.columnsPerLane, tile.rowsPerLane, tile.blockInner});
}

} // namespace

const Routine projectionRoutine = {
    .kind = VKATTN_PROJECTION,
    .name = "projection",
    .zone = "vkattn projection",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow | 1u << boxColumn,
    .layOut = layOut,
    .groups = groups,
    .dispatch = dispatch,
};

} // namespace vkattn
