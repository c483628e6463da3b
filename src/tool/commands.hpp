// The commands of the tool.
#pragma once

#include "program/failure.hpp"

namespace vkattn::tool {

// Does what a command line says: the command that it names, or help, or the version. Throws Failure where the command line is wrong,
// and as the commands do.
[[nodiscard]] program::ExitStatus executeCommandLine(int argc, const char *const *argv);

} // namespace vkattn::tool
