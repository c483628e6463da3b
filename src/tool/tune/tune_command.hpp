// `vkattn tune`: measures tiles on a device and writes a tuning file (docs/tuning.md).
#pragma once

#include "program/failure.hpp"
#include "tool/tune/tune_arguments.hpp"

namespace vkattn::tool {

// Throws Failure as runCommand does.
[[nodiscard]] program::ExitStatus tuneCommand(const TuneArguments &arguments);

} // namespace vkattn::tool
