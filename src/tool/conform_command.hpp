// `vkattn conform`: does attention compute rightly on these devices? (docs/conform.md)
#pragma once

#include "conform_arguments.hpp"
#include "failure.hpp"

namespace vkattn::tool {

// Prints a summary on stdout. Throws Failure; then no output file has appeared.
[[nodiscard]] ExitStatus conformCommand(const ConformArguments &arguments);

} // namespace vkattn::tool
