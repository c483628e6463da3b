// A device as reports describe it.
#pragma once

#include "conform/report/report.hpp"

#include <vkattn/runtime.hpp>

namespace vkattn::conform {

[[nodiscard]] DeviceFacts factsOf(const DeviceInfo &device);

} // namespace vkattn::conform
