// `vkattn grad`: arrays in, attention forward and backward, gradients out.
#pragma once

#include "tool/options/arguments.hpp"

namespace vkattn::tool {

// Prints the report on stdout. Throws Failure; then no output file has appeared (but for a rename
// that fails after another one worked).
[[nodiscard]] program::ExitStatus gradientCommand(const GradientArguments &arguments);

} // namespace vkattn::tool
