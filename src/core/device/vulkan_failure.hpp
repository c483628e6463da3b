// The result and the message of a Vulkan call that failed: one place for core.
#pragma once

#include "util/diagnostic.hpp"
#include "vkattn/vkattn.h"

namespace vkattn {

[[nodiscard]] inline vkattn_result codeOf(VkResult result) {
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
        return VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return VKATTN_ERROR_DEVICE_LOST;
    default:
        return VKATTN_ERROR_VULKAN;
    }
}

// `what` names the purpose of the call, or is empty.
[[nodiscard]] inline vkattn_result vulkanFailure(vkattn_diagnostic *why, VkResult result, const char *call, const char *what = "") {
    return failVulkan(why, codeOf(result), result, "%s failed with VkResult %d%s%s", call, static_cast<int>(result), what[0] ? " for " : "",
                      what);
}

} // namespace vkattn
