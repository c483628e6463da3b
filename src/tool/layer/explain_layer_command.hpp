// `vkattn explain layer`: the steps of a layer, and what they cost, without running them.
#pragma once

#include "program/failure.hpp"
#include "tool/options/arguments.hpp"

namespace vkattn::tool {

// Throws Failure.
[[nodiscard]] program::ExitStatus explainLayerCommand(const LayerArguments &arguments);

} // namespace vkattn::tool
