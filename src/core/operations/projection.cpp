// The projection: tiles of rows and columns, over blocks of the inner dim.
#include "core/operations/operands.hpp"
#include "core/shaders/shaders.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Tiles: one fact a row. On CPU devices a row of X stays with its lane, and a load feeds many
// multiply-adds: 8 x 32 with blocks of 8 ran 2 to 3 times as fast as 4 x 16 on Mesa 26 and Mesa 22
// (2026-11-22). Those of GPUs were not measured.
// A 16-bit W is converted by each subgroup anew: more rows a lane share what that takes, where there
// are so many rows. How sums are taken does not depend on the rows of a lane.
ProjectionTile shuffledTile(const Operation &o, uint32_t lanes) {
    constexpr uint32_t rows = 8;
    const bool converts = o.tensor(VKATTN_W).dtype != VKATTN_F32 && o.rows > rows * lanes;
    return {.form = VKATTN_PROJECTION_SHUFFLED,
            .columnLanes = 1,
            .rowLanes = lanes,
            .columnsPerLane = 32,
            .rowsPerLane = converts ? 2 * rows : rows,
            .blockInner = std::max(lanes, 8u)};
}
constexpr ProjectionTile sharedTile(uint32_t columnLanes, uint32_t rowsPerLane, uint32_t blockInner) {
    return {.form = VKATTN_PROJECTION_SHARED,
            .columnLanes = columnLanes,
            .rowLanes = 8,
            .columnsPerLane = 4,
            .rowsPerLane = rowsPerLane,
            .blockInner = blockInner};
}
constexpr ProjectionTile cpuShared = sharedTile(8, 4, 8), gpuShared = sharedTile(16, 8, 16);
constexpr ProjectionTile fewTile(uint32_t lanes, uint32_t columns, uint32_t rows) {
    return {.form = VKATTN_PROJECTION_FEW,
            .columnLanes = 1,
            .rowLanes = lanes,
            .columnsPerLane = columns,
            .rowsPerLane = rows,
            .blockInner = lanes};
}
constexpr uint32_t fewRows = 8; // up to which W is read once for all rows

bool onCpu(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

// A lane computes all its rows, also those that are not there: a row that is alone has a tile of its
// own.
ProjectionTile fewTile(const Operation &o, const Caps &caps) {
    const uint32_t rows = o.rows <= 1 ? 1 : o.rows == 2 ? 2 : 4;
    return onCpu(caps) ? fewTile(8, 8, rows) : fewTile(64, 4, rows);
}

vkattn_result unsupported(vkattn_diagnostic *why, const char *reason) {
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s", reason);
}

Module matrixModule(bool bfloat16, bool secondAddend) {
    return secondAddend ? bfloat16 ? Module::projectionTwoCoopmatBf16 : Module::projectionTwoCoopmatF16
           : bfloat16   ? Module::projectionCoopmatBf16
                        : Module::projectionCoopmatF16;
}

// What the shader has in shared memory.
uint32_t sharedBytes(const ProjectionTile &t) {
    return 16 * ((t.rows() + t.columns()) * (t.blockInner / 8 + 1) + t.subgroups * t.m * (t.n / 4 + 1));
}

vkattn_result matrixTile(const Operation &o, const Caps &caps, ProjectionTile &tile, vkattn_diagnostic *why) {
    const vkattn_dtype type = o.tensor(VKATTN_X).dtype;
    if (type != o.tensor(VKATTN_W).dtype || type == VKATTN_F32) return unsupported(why, "matrix units take X and W both f16 or both bf16");
    if (!shaderFor(matrixModule(type == VKATTN_BF16, false)).built())
        return unsupported(why, "this build has no shaders for matrix units: its shader compiler lacks an extension (docs/drivers.md), or "
                                "VKATTN_KERNELS leaves "
                                "flash_coopmat out");
    const vkattn_matrix_shape *const shape = matrixShapeFor(caps, type);
    const uint32_t lanes = matrixLanes(caps);
    if (!shape || !lanes)
        return unsupported(why, "the device has no matrix units for the type, or one of cooperativeMatrix, shaderFloat16, "
                                "vulkanMemoryModel and computeFullSubgroups is not enabled");
    tile = {.form = VKATTN_PROJECTION_COOPMAT, .columnsPerLane = 4, .rowsPerLane = 2, .blockInner = roundUp(32, shape->k)};
    tile.subgroupLanes = lanes;
    tile.m = shape->m;
    tile.n = shape->n;
    tile.k = shape->k;
    for (tile.subgroups = 4; tile.subgroups > 0; tile.subgroups /= 2)
        if (tile.lanes() <= caps.maxWorkgroupInvocations && tile.lanes() <= caps.maxWorkgroupSize[0] &&
            sharedBytes(tile) <= caps.maxSharedMemoryBytes)
            return VKATTN_OK;
    return unsupported(why, "the device's shared memory or workgroups are too small for tiles of matrices");
}

vkattn_result tileFor(const Operation &o, const Caps &caps, ProjectionTile &tile, const char *&choice, vkattn_diagnostic *why) {
    const bool shuffles = caps.subgroupShuffle && caps.subgroupSize >= 4 && caps.subgroupSize <= 16;
    choice = "the problem asks for the kernel";
    switch (o.projection) {
    case VKATTN_PROJECTION_COOPMAT:
        return matrixTile(o, caps, tile, why);
    case VKATTN_PROJECTION_SHUFFLED:
        if (!shuffles) return unsupported(why, "the projection through shuffles needs subgroups of 4 to 16 lanes");
        return tile = shuffledTile(o, caps.subgroupSize), VKATTN_OK;
    case VKATTN_PROJECTION_FEW:
        return tile = fewTile(o, caps), VKATTN_OK;
    default:
        break;
    }
    if (o.projection == VKATTN_PROJECTION_AUTO) {
        // How many rows there are must not decide how sums are taken where bits must not depend on
        // it.
        const bool few = o.rows <= fewRows && !(o.flags & VKATTN_DETERMINISTIC);
        const bool trusted = !((caps.wrongKernels | caps.slowKernels) >> VKATTN_KERNEL_FLASH_COOPMAT & 1u);
        if (few) {
            choice = "there are at most 8 rows: W is read once for all of them";
            return tile = fewTile(o, caps), VKATTN_OK;
        }
        choice = "the device has matrix units for the type of X and W";
        if (!onCpu(caps) && trusted && matrixTile(o, caps, tile, nullptr) == VKATTN_OK) return VKATTN_OK;
        choice = "a CPU device: lanes of a subgroup share their loads of W by shuffles";
        if (onCpu(caps) && shuffles) return tile = shuffledTile(o, caps.subgroupSize), VKATTN_OK;
        choice = onCpu(caps) ? "a CPU device whose subgroups do not shuffle, or not with 4 to 16 lanes"
                 : !trusted  ? "the device's verdict on flash_coopmat keeps matrix units out"
                             : "the device has no matrix units for the types of X and W";
    }
    const bool large = gpuShared.lanes() <= caps.maxWorkgroupInvocations;
    tile = onCpu(caps) || !large ? cpuShared : gpuShared;
    return VKATTN_OK;
}

Module moduleOf(vkattn_projection_kernel form, bool bfloat16, bool secondAddend) {
    switch (form) {
    case VKATTN_PROJECTION_SHUFFLED:
        return secondAddend ? Module::projectionTwoShuffled : Module::projectionShuffled;
    case VKATTN_PROJECTION_FEW:
        return secondAddend ? Module::projectionTwoFew : Module::projectionFew;
    case VKATTN_PROJECTION_COOPMAT:
        return matrixModule(bfloat16, secondAddend);
    default:
        return secondAddend ? Module::projectionTwo : Module::projection;
    }
}

// The specialization constants of a form's own.
PipelineKey keyOf(const ProjectionTile &tile, Module module, const ConceptConstants &constants) {
    switch (tile.form) {
    case VKATTN_PROJECTION_SHUFFLED:
        return pipelineKey(module, tile.lanes(), constants, {tile.rowLanes, tile.rowsPerLane, tile.columnsPerLane, tile.blockInner});
    case VKATTN_PROJECTION_FEW:
        return pipelineKey(module, tile.lanes(), constants, {tile.lanes(), tile.rowsPerLane, tile.columnsPerLane});
    case VKATTN_PROJECTION_COOPMAT:
        return pipelineKey(
            module, tile.lanes(), constants,
            {tile.subgroupLanes, tile.subgroups, tile.rowsPerLane, tile.columnsPerLane, tile.m, tile.n, tile.k, tile.blockInner});
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

// Inner dims of one dispatch. More of them are a dispatch for each part, which adds to the sums of the
// parts before: Mesa 22's software driver silently leaves a shader after 65,535 iterations of all its
// loops together (found 2026-11-23: inner dims past 47,664 had no effect), of which a shader has at most
// 11 for 8 inner dims. A multiple of every block.
constexpr uint32_t partOfInner = 32768;

uint32_t partsOf(const OperationPlan &plan) {
    return divideUp(plan.operation.inner, partOfInner);
}

// Lengths have the binding of the first addend. Where something is added to the sums, or a part goes on with those
// of the part before, both lie in the workspace: first the sums, and the lengths of the box's batch entries behind
// them.
bool gathersLengths(const OperationPlan &plan) {
    return plan.operation.has(VKATTN_KEY_LENGTHS) && plan.steps > 1;
}
bool gathersAddends(const OperationPlan &plan) {
    return plan.gatherSteps > (gathersLengths(plan) ? 1u : 0u);
}

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *why) {
    vkattn_role roles[2];
    const uint32_t added = addends(plan.operation, roles), parts = partsOf(plan);
    if (plan.operation.has(VKATTN_KEY_LENGTHS))
        plan.gatherSteps = added > 0 ? 2 : parts > 1 ? 1 : 0;
    else // where a device has four buffers, the sum of two addends is gathered first
        plan.gatherSteps = plan.plain && added == 2 ? 1 : 0;
    plan.steps = plan.gatherSteps + parts;
    if (const auto r = tileFor(plan.operation, caps, plan.tile, plan.choice, why)) return r;
    plan.lanes = plan.tile.lanes();
    plan.oneVector = onCpu(caps);
    return VKATTN_OK;
}

uint64_t sumsOf(const OperationBox &box) {
    return uint64_t{1} * box.count[boxBatch] * box.count[boxGroup] * box.count[boxRow] * box.count[boxColumn];
}

uint64_t workspaceBytes(const OperationPlan &plan, const OperationBox &box) {
    return plan.steps > 1 ? 4 * (sumsOf(box) + (gathersLengths(plan) ? box.count[boxBatch] : 0)) : 0;
}

void tileGroups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(box.count[boxColumn], plan.tile.columns());
    out[1] = divideUp(box.count[boxRow], plan.tile.rows());
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

// Addends are gathered row by row, in more workgroups than there are tiles.
void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    tileGroups(plan, box, out);
    if (gathersAddends(plan)) raiseToAdd(box.count, out);
    if (gathersLengths(plan)) out[0] = std::max<uint64_t>(out[0], groupsToCopy(box.count[boxBatch]));
}

// A box of f32, densely packed.
Strides packedStrides(const OperationBox &box) {
    const uint32_t columns = box.count[boxColumn], group = columns * box.count[boxRow];
    return {group * box.count[boxGroup], group, columns, 1};
}

void gatherAddends(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    vkattn_role roles[2];
    const bool both = addends(o, roles) == 2;
    const AddOperand last = addOperand(o, roles[both ? 1 : 0], box), bias = addOperand(o, roles[0], box);
    makeAdd(d, box.count, last, both ? &bias : nullptr, {gathered(0, 4 * sumsOf(box), true), packedStrides(box), VKATTN_F32});
}

void dispatch(const OperationPlan &plan, const OperationBox &box, uint32_t step, Dispatch &d) {
    const Operation &o = plan.operation;
    const bool hasLengths = o.has(VKATTN_KEY_LENGTHS), lengthsGathered = gathersLengths(plan);
    if (lengthsGathered && step == 0)
        return makeCopy(d, boxOperand(o, VKATTN_KEY_LENGTHS, box, 0), box.count[boxBatch],
                        gathered(4 * sumsOf(box), workspaceBytes(plan, box), true));
    if (step < plan.gatherSteps) return gatherAddends(plan, box, d);
    const uint32_t firstInner = (step - plan.gatherSteps) * partOfInner;
    // What is in the workspace is added: gathered addends, or the sums of the parts before.
    const bool goesOn = gathersAddends(plan) || step > plan.gatherSteps, lastPart = step + 1 == plan.steps;
    vkattn_role roles[2];
    const uint32_t count = goesOn ? 1 : addends(o, roles);
    ProjectionPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.columns = box.count[boxColumn];
    push.inner = std::min(partOfInner, o.inner - firstInner);
    push.innerFirst = firstInner;
    push.lengthsAt = lengthsGathered ? static_cast<uint32_t>(sumsOf(box)) : 0;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.wStrides = stridesOf(o, VKATTN_W);
    push.yStrides = lastPart ? stridesOf(o, VKATTN_Y) : packedStrides(box);
    const auto type = [&](vkattn_role role) { return static_cast<uint32_t>(o.tensor(role).dtype); };
    ConceptConstants constants{};
    constants.elementTypes = type(VKATTN_X) | (lastPart ? type(VKATTN_Y) : elementF32) << typesOut | type(VKATTN_W) << typesW;
    constants.form = (count > 0 ? formFirstAddend : 0) | (hasLengths ? formLengths : 0);
    if (goesOn) {
        push.firstStrides = packedStrides(box);
    } else {
        if (count > 0) push.firstStrides = stridesOf(o, roles[0]), constants.elementTypes |= type(roles[0]) << typesFirstAddend;
        if (count > 1) push.secondStrides = stridesOf(o, roles[1]), constants.elementTypes |= type(roles[1]) << typesSecondAddend;
    }
    setPush(d, push);
    if (push.inner % plan.tile.blockInner == 0 && !hasLengths) constants.form |= formWholeInner;
    if (o.tensor(VKATTN_X).unitDims() && o.tensor(VKATTN_W).unitDims()) constants.form |= formAdjacentInner;
    if (plan.tile.form == VKATTN_PROJECTION_COOPMAT)
        constants.form |= (fillsWords(o.tensor(VKATTN_X)) && fillsWords(o.tensor(VKATTN_W)) && !hasLengths ? formInnerWords : 0) |
                          (plan.oneVector ? formOneVector : 0);
    d.key = keyOf(plan.tile, moduleOf(plan.tile.form, o.tensor(VKATTN_X).dtype == VKATTN_BF16, count > 1), constants);
    const auto fromFirstInner = [&](vkattn_role role, size_t base) {
        Operand operand = boxOperand(o, role, box, base);
        operand.firstByte += static_cast<uint64_t>(o.tensor(role).stride[3]) * firstInner * operand.elementSize;
        return operand;
    };
    d.operands[slotX] = fromFirstInner(VKATTN_X, offsetof(ProjectionPush, xBase));
    for (uint32_t slot = slotX + 1; slot < infoOf(d.key.module).slots; ++slot) d.operands[slot] = standIn(d.operands[slotX]);
    d.operands[slotY] = lastPart ? boxOperand(o, VKATTN_Y, box, offsetof(ProjectionPush, yBase))
                                 : gathered(0, 4 * sumsOf(box), true, offsetof(ProjectionPush, yBase) / 4);
    d.operands[slotW] = fromFirstInner(VKATTN_W, offsetof(ProjectionPush, wBase));
    if (goesOn || lengthsGathered)
        d.operands[slotFirstAddend] = gathered(0, workspaceBytes(plan, box), false, offsetof(ProjectionPush, firstBase) / 4);
    else if (hasLengths)
        d.operands[slotFirstAddend] = boxOperand(o, VKATTN_KEY_LENGTHS, box, offsetof(ProjectionPush, firstBase));
    else if (count > 0)
        d.operands[slotFirstAddend] = boxOperand(o, roles[0], box, offsetof(ProjectionPush, firstBase));
    if (count > 1) d.operands[slotSecondAddend] = boxOperand(o, roles[1], box, offsetof(ProjectionPush, secondBase));
    setGroups(d, tileGroups, plan, box);
}

} // namespace

const char *projectionFormText(vkattn_projection_kernel form) {
    switch (form) {
    case VKATTN_PROJECTION_SHUFFLED:
        return "rows in lanes, W through subgroup shuffles";
    case VKATTN_PROJECTION_FEW:
        return "inner dims in lanes, for few rows";
    case VKATTN_PROJECTION_COOPMAT:
        return "matrix units";
    default:
        return "tiles in shared memory";
    }
}

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
