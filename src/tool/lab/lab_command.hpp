// `vkattn lab`: the experiments of the notes on attention.
#pragma once

#include "tool/lab/lab_arguments.hpp"

#include "program/failure.hpp"

namespace vkattn::tool {

// Throws Failure.
[[nodiscard]] program::ExitStatus labCommand(const LabArguments &arguments);

} // namespace vkattn::tool
