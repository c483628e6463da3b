// The device that the arguments name.
#pragma once

#include "arguments.hpp"

#include <vkattn/runtime.hpp>

namespace vkattn::tool {

// Throws Failure where there is no such device, or none that is usable and --no-fallback forbids the CPU.
[[nodiscard]] std::unique_ptr<Runtime> openRuntime(const RunArguments &arguments);

} // namespace vkattn::tool
