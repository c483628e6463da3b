// What the C functions of vkattn.h share: handles, logs, and the limits that plans are made from.
#pragma once

#include "core/plan/kernel.hpp"
#include "core/vulkan/context.hpp"

namespace vkattn {

[[nodiscard]] inline DeviceContext *fromHandle(vkattn_context handle) {
    return reinterpret_cast<DeviceContext *>(handle);
}

[[nodiscard]] inline const Log *logOf(vkattn_context handle) {
    return handle ? &fromHandle(handle)->log() : nullptr;
}

// Returns the limits that a context on such a device would plan with.
[[nodiscard]] vkattn_result limitsFor(const vkattn_caps *caps, const vkattn_plan_options *given, PlanLimits &limits,
                                      vkattn_diagnostic *why);

// Sets what requirements say of any plan.
void describeSchedule(const Schedule &schedule, const Caps &caps, vkattn_requirements &out);

} // namespace vkattn
