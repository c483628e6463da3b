// `vkattn run`: arrays in, attention, arrays out.
#pragma once

#include "tool/options/arguments.hpp"

namespace vkattn::tool {

// Prints the report on stdout. Throws Failure; then no output file has appeared (but for a rename
// that fails after another one worked).
[[nodiscard]] program::ExitStatus runCommand(const RunArguments &arguments);

} // namespace vkattn::tool
