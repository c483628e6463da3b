// `vkattn layer`: multi-head attention whole, from tokens and weight matrices to the layer's output.
#pragma once

#include "program/failure.hpp"
#include "tool/options/arguments.hpp"

namespace vkattn::tool {

// Throws Failure; no output file has appeared then.
[[nodiscard]] program::ExitStatus layerCommand(const LayerArguments &arguments);

} // namespace vkattn::tool
