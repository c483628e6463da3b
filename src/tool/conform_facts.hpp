// A device as reports describe it.
#pragma once

#include "conform_report.hpp"

#include <vkattn/runtime.hpp>

namespace vkattn::tool {

[[nodiscard]] DeviceFacts factsOf(const DeviceInfo &device);

} // namespace vkattn::tool
