// The staged kernel: scores, softmax and values as dispatches of their own. Every option; memory of size queries x keys, in chunks.
#pragma once

#include "core/plan/plan.hpp"

namespace vkattn {

// Whether the staged kernel can run on such a device at all; UNSUPPORTED with the reason otherwise.
[[nodiscard]] vkattn_result stagedSupported(const Caps &caps, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result makeStagedPlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why);
[[nodiscard]] uint32_t stagedDispatchesPerRowChunk(const Plan &plan);
[[nodiscard]] Dispatch stagedDispatch(const Plan &plan, uint32_t index);

} // namespace vkattn
