// A device that could do more than the host has declared: Vulkan cannot be asked what was enabled,
// so an apiVersion that was left out, or an extension that is not listed, costs speed and nothing
// fails.
#pragma once

#include "core/device/callbacks.hpp"
#include "core/device/requirements.hpp"
#include "core/plan/caps.hpp"

namespace vkattn {

// One warning with what is lost and what to declare; none where nothing is. `caps`: what the
// context plans with. `limit`: the host's capsLimit, or NULL; what that takes away is lost on
// purpose.
void warnOfUndeclared(const vkattn_host &host, const PhysicalDevice &device, const Caps &caps, const Caps *limit, const Log &log);

} // namespace vkattn
