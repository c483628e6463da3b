// `vkattn inspect`: what attention does, in figures.
#pragma once

#include "program/failure.hpp"
#include "tool/options/arguments.hpp"

namespace vkattn::tool {

[[nodiscard]] program::ExitStatus inspectCommand(const InspectArguments &arguments);

} // namespace vkattn::tool
