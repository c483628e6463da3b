// Slices: which dispatches of a plan belong to which piece of it. The planner cuts a problem with
// slices into chunks that are small enough (Chunker); here whole units of dispatches are dealt out
// so that slices have nearly equal work. No dispatch is changed by it.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"

namespace vkattn {

// How a plan of any kind may be cut: units of dispatches, in order, between which a slice may end.
struct SliceUnits {
    const Schedule &plan;
    uint32_t count; // 0 where the plan has no dispatches
    // Of the first `unit` units, up to `count`; the whole plan's is above 0.
    double (*workBefore)(const Schedule &plan, uint32_t unit);
    uint32_t (*firstDispatch)(const Schedule &plan, uint32_t unit); // unit < count
};

[[nodiscard]] DispatchRange dispatchesOfSlice(const SliceUnits &units, uint32_t index);
[[nodiscard]] uint32_t sliceOfDispatch(const SliceUnits &units, uint32_t dispatch);
// Of the largest slice, in the whole.
[[nodiscard]] double largestShare(const SliceUnits &units);

// The work of rows: the pairs that they see, and something for each row. Of all rows before a chunk,
// of a chunk, and of all.
[[nodiscard]] double workBefore(const Plan &plan, const Chunk &c);
[[nodiscard]] double workOf(const Plan &plan, const Chunk &c);
[[nodiscard]] double totalWork(const Problem &p);

// Of attention, a unit is a chunk of rows, or of keys where a chunk of rows has several.
[[nodiscard]] SliceUnits sliceUnits(const Plan &plan);
[[nodiscard]] inline DispatchRange dispatchesOfSlice(const Plan &plan, uint32_t index) {
    return dispatchesOfSlice(sliceUnits(plan), index);
}
[[nodiscard]] inline uint32_t sliceOfDispatch(const Plan &plan, uint32_t dispatch) {
    return sliceOfDispatch(sliceUnits(plan), dispatch);
}
[[nodiscard]] inline double largestShare(const Plan &plan) {
    return largestShare(sliceUnits(plan));
}
// How many slices have work where the planner cuts as finely as it can.
[[nodiscard]] uint32_t mostSlices(const Plan &plan, const PlanLimits &limits);
// The same for any kind of plan. planFor(slices, finest): makes the plan for so many. There may be none: the
// largest problems would take more dispatches than a plan may have.
template <class AnyPlan, class PlanFor> uint32_t mostSlicesWith(const AnyPlan &plan, const PlanFor &planFor) {
    if (plan.dispatchCount == 0) return 1;
    for (uint32_t slices = UINT32_MAX; slices > 1; slices /= 16) {
        AnyPlan finest;
        if (planFor(slices, finest) != VKATTN_OK) continue;
        if (const uint32_t units = sliceUnits(finest).count) return units;
    }
    return 1;
}
// The least number of slices that take at most so many microseconds each, by the rates of
// limits.tuning. `plan` is of one slice.
[[nodiscard]] vkattn_result slicesForBudget(const Plan &plan, const PlanLimits &limits, double microseconds, uint32_t &slices,
                                            vkattn_diagnostic *why);
// From the workspace's start: what the dispatches of a slice leave for those of later ones.
[[nodiscard]] uint64_t persistentWorkspaceBytes(const Plan &plan);

} // namespace vkattn
