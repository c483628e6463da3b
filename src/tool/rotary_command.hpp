// `vkattn rotary`: an array in, its pairs of dims turned by each token's position, an array out.
#pragma once

#include "program/failure.hpp"
#include "tool/options/rotary_arguments.hpp"

namespace vkattn::tool {

// Prints the report on stdout. Throws Failure; then no output file has appeared.
[[nodiscard]] program::ExitStatus rotaryCommand(const RotaryArguments &arguments);

} // namespace vkattn::tool
