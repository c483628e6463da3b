// `vkattn merge`.
#pragma once

#include "program/failure.hpp"
#include "tool/cache/cache_arguments.hpp"

namespace vkattn::tool {

// Throws Failure.
[[nodiscard]] program::ExitStatus mergeCommand(const MergeArguments &arguments);

} // namespace vkattn::tool
