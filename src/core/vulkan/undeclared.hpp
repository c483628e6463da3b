// Warnings about a device that could do more than the host has declared. Vulkan cannot be asked
// what was enabled: a missing apiVersion, or an extension that is not listed, costs speed, and
// nothing fails.
#pragma once

#include "core/device/callbacks.hpp"
#include "core/device/requirements.hpp"
#include "core/plan/caps.hpp"

namespace vkattn {

// Logs one warning that says what is lost and what to declare; logs nothing where nothing is lost.
// `caps` are those that the context plans with. `limit` is the host's capsLimit, or NULL: abilities
// that the limit takes away are lost on purpose.
void warnOfUndeclared(const vkattn_host &host, const PhysicalDevice &device, const Caps &caps, const Caps *limit, const Log &log);

} // namespace vkattn
