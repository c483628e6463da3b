// `vkattn linear`: queries, keys and values in, linear attention by features or by a state, an array and the state out.
#pragma once

#include "program/failure.hpp"
#include "tool/options/linear_arguments.hpp"

namespace vkattn::tool {

// Prints the report on stdout. Throws Failure; then no output file has appeared.
[[nodiscard]] program::ExitStatus linearCommand(const LinearArguments &arguments);

} // namespace vkattn::tool
