// `vkattn append`.
#pragma once

#include "program/failure.hpp"
#include "tool/cache/cache_arguments.hpp"

namespace vkattn::tool {

// Throws Failure.
[[nodiscard]] program::ExitStatus appendCommand(const AppendArguments &arguments);

} // namespace vkattn::tool
