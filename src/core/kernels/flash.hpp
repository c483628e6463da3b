// The flash and decode kernels: fused attention in one pass over the keys, in tiles of query rows; decode with lanes along the keys.
#pragma once

#include "core/plan/plan.hpp"

namespace vkattn {

// Whether the kernel can run on such a device at all; UNSUPPORTED with the reason otherwise. Where it can run some problems only, OK and
// `why` says which.
[[nodiscard]] vkattn_result flashSupported(vkattn_kernel kernel, const PlanLimits &limits, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result makeFlashPlan(vkattn_kernel kernel, const Problem &problem, const PlanLimits &limits, Plan &out,
                                          vkattn_diagnostic *why);
[[nodiscard]] uint32_t flashDispatchesPerRowChunk(const Plan &plan);
[[nodiscard]] Dispatch flashDispatch(const Plan &plan, uint32_t index);

} // namespace vkattn
