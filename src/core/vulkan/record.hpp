// Walks a schedule's dispatches into a command buffer. Takes no decisions, allocates nothing, holds no
// lock.
#pragma once

#include "core/vulkan/context.hpp"

namespace vkattn {

// Earlier compute writes are visible to the compute reads and writes that follow.
void computeBarrier(const DeviceTable &table, VkCommandBuffer commandBuffer);

[[nodiscard]] vkattn_result recordSchedule(DeviceContext &context, const Schedule &schedule, const vkattn_record &record,
                                           vkattn_diagnostic *why);

} // namespace vkattn
