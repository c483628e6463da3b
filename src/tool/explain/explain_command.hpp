// `vkattn explain`: which kernel would compute a problem, why, and what that costs. Nothing is
// computed.
#pragma once

#include "tool/options/arguments.hpp"

namespace vkattn::tool {

// Prints on stdout. Throws Failure as runCommand does.
[[nodiscard]] program::ExitStatus explainCommand(const ExplainArguments &arguments);

} // namespace vkattn::tool
