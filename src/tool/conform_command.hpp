// `vkattn conform`: does attention compute rightly on these devices? (docs/conform.md)
#pragma once

#include "program/failure.hpp"
#include "tool/options/conform_arguments.hpp"

namespace vkattn::tool {

// Prints a summary on stdout. Throws Failure; then no output file has appeared.
[[nodiscard]] program::ExitStatus conformCommand(const ConformArguments &arguments);

} // namespace vkattn::tool
