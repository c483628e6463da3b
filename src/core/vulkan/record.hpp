// Walks a plan's dispatches into a command buffer. Takes no decisions, allocates nothing, holds no
// lock.
#pragma once

#include "core/vulkan/context.hpp"

namespace vkattn {

[[nodiscard]] vkattn_result recordPlan(DeviceContext &context, const Plan &plan, const vkattn_record &record, vkattn_diagnostic *why);

} // namespace vkattn
