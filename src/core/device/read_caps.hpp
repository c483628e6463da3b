// The caps of a device: the facts that planning needs, read through Vulkan.
#pragma once

#include "core/device/requirements.hpp"
#include "core/plan/caps.hpp"

namespace vkattn {

// Returns the caps of a device that has been, or will be, created with what is enabled.
[[nodiscard]] Caps readCaps(const PhysicalDevice &device, const Enabled &enabled);

} // namespace vkattn
