// Slices: which dispatches of a plan belong to which piece of it. The planner cuts a problem with
// slices into chunks that are small enough (Chunker); here whole units of dispatches are dealt out
// so that slices have nearly equal work. No dispatch is changed by it.
#pragma once

#include "core/plan/plan.hpp"

namespace vkattn {

// Between two units of dispatches a slice may end: chunks of rows, or of keys where a chunk of rows
// has several.
[[nodiscard]] uint32_t sliceUnits(const Plan &plan);
[[nodiscard]] DispatchRange dispatchesOfSlice(const Plan &plan, uint32_t index);
[[nodiscard]] uint32_t sliceOfDispatch(const Plan &plan, uint32_t dispatch);
// Of the largest slice, in the whole.
[[nodiscard]] double largestShare(const Plan &plan);
// How many slices have work where the planner cuts as finely as it can.
[[nodiscard]] uint32_t mostSlices(const Plan &plan, const PlanLimits &limits);
// The least number of slices that take at most so many microseconds each, by the rates of
// limits.tuning. `plan` is of one slice.
[[nodiscard]] vkattn_result slicesForBudget(const Plan &plan, const PlanLimits &limits, double microseconds, uint32_t &slices,
                                            vkattn_diagnostic *why);
// From the workspace's start: what the dispatches of a slice leave for those of later ones.
[[nodiscard]] uint64_t persistentWorkspaceBytes(const Plan &plan);

} // namespace vkattn
