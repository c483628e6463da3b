// Operation x Caps -> OperationPlan: which routine computes an operation beside attention, and how
// the operation is cut into boxes to meet limits. Pure data and pure functions; no Vulkan call.
#pragma once

#include "core/plan/plan.hpp"
#include "problem/operations/operation.hpp"

namespace vkattn {

// What one dispatch computes: batch entries, groups, rows and columns of the operation. Columns are
// the outputs of a projection, the words of keep and the pages of a pool that tokens are appended to; other operations
// take rows whole.
struct OperationBox {
    uint32_t first[4], count[4];
};
enum BoxDimension : uint32_t { boxBatch, boxGroup, boxRow, boxColumn };

// How a projection spreads over lanes.
struct ProjectionTile {
    vkattn_projection_kernel form; // never AUTO
    uint32_t columnLanes, rowLanes, columnsPerLane, rowsPerLane;
    uint32_t blockInner; // inner dims at a time
    // On matrix units: a subgroup has rowsPerLane matrices of rows, and the tile columnsPerLane
    // matrices of columns.
    uint32_t subgroupLanes, subgroups, m, n, k;

    [[nodiscard]] uint32_t columns() const {
        return form == VKATTN_PROJECTION_COOPMAT ? columnsPerLane * n : (form == VKATTN_PROJECTION_FEW ? 1 : columnLanes) * columnsPerLane;
    }
    [[nodiscard]] uint32_t rows() const {
        return form == VKATTN_PROJECTION_COOPMAT ? subgroups * rowsPerLane * m
                                                 : (form == VKATTN_PROJECTION_FEW ? 1 : rowLanes) * rowsPerLane;
    }
    [[nodiscard]] uint32_t lanes() const { return form == VKATTN_PROJECTION_COOPMAT ? subgroupLanes * subgroups : columnLanes * rowLanes; }
};

struct OperationPlan;

// How one kind of operation is computed on Vulkan: a row of the table in operation_plan.cpp.
struct Routine {
    vkattn_operation_kind kind;
    const char *name;  // in messages and requirements
    const char *zone;  // around all that one call records
    uint32_t cuttable; // bits 1 << BoxDimension: directions in which boxes may be small
    // Chooses tile, lanes and the steps of a box. UNSUPPORTED with the reason where the routine that
    // was asked for cannot take the operation.
    vkattn_result (*layOut)(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *why);
    // The most workgroups that a step of the box takes, in each direction.
    void (*groups)(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]);
    // Of what the steps of a box gather. NULL: none.
    uint64_t (*workspaceBytes)(const OperationPlan &plan, const OperationBox &box);
    // Makes a step of a box, counted from 0.
    void (*dispatch)(const OperationPlan &plan, const OperationBox &box, uint32_t step, Dispatch &out);
    // In place, what a box reads may span what another one has written.
    bool boxesSpanOthers = false;
};

struct OperationPlan : Schedule {
    Operation operation;
    const Routine *routine;
    const char *choice;  // why it is computed so, static storage
    ProjectionTile tile; // projection
    uint32_t lanes;      // of a workgroup
    // Dispatches of a box, one after the other. The first gatherSteps of them gather in the workspace what
    // devices with more than four buffers bind, and the key lengths of a projection.
    uint32_t gatherSteps;
    uint32_t steps;
    bool plain;         // the forms of four buffers
    bool oneVector;     // a subgroup is one vector of a CPU
    uint32_t extent[4]; // of the box that is the whole operation
    uint32_t box[4];    // extents of a dispatch's box; the last one in each direction may be smaller
    uint32_t boxes[4];  // in each direction

    [[nodiscard]] OperationBox boxAt(uint32_t index) const;
    [[nodiscard]] Dispatch dispatch(uint32_t index) const;
};
static_assert(sizeof(OperationPlan) < 4096, "plans live on the stack");

// UNSUPPORTED with the reason where the device's limits cannot be met.
[[nodiscard]] vkattn_result planOperation(const Operation &operation, const PlanLimits &limits, OperationPlan &out, vkattn_diagnostic *why);
// Says what the planner has chosen, and what the choice costs.
void explainOperation(const OperationPlan &plan, const PlanLimits &limits, vkattn_explanation &out);

// The lanes that share a row of a norm, or of its gradient.
[[nodiscard]] uint32_t normLanes(const Operation &operation, const Caps &caps);

// e.g. "tiles in shared memory", static storage.
[[nodiscard]] const char *projectionFormText(vkattn_projection_kernel form);

extern const Routine projectionRoutine, normRoutine, normGradientRoutine, rotaryRoutine, appendRoutine, advanceRoutine, meanRoutine,
    keepRoutine, dropRoutine, mergeRoutine, hadamardRoutine;

} // namespace vkattn
