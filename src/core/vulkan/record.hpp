// Walks a schedule's dispatches into a command buffer. Takes no decisions, allocates nothing, holds no
// lock.
#pragma once

#include "core/vulkan/context.hpp"

namespace vkattn {

[[nodiscard]] vkattn_result recordSchedule(DeviceContext &context, const Schedule &schedule, const vkattn_record &record, vkattn_diagnostic *why);

} // namespace vkattn
