// `vkattn explain linear`: how linear attention and its gradients would be computed, and what that costs, without
// running them.
#pragma once

#include "program/failure.hpp"
#include "tool/options/linear_arguments.hpp"

namespace vkattn::tool {

// Throws Failure.
[[nodiscard]] program::ExitStatus explainLinearCommand(const LinearArguments &arguments);

} // namespace vkattn::tool
