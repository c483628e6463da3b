// --program: the file as a program, compiled for what a command computes.
#pragma once

#include "tool/device.hpp"

#include <vkattn/operations.h>

namespace vkattn::tool {

// The program of the arguments, or NULL; made once for each file, and kept until the tool ends. Throws Failure with
// the file and the line where it is no program.
[[nodiscard]] const vkattn_program *programOf(const RunArguments &arguments);

// Compiles what `operation` needs of its program, if it has one, on the device at hand. Throws Failure.
void prepareProgram(const RunArguments &arguments, const OpenedRuntime &opened, const vkattn_operation &operation);

} // namespace vkattn::tool
