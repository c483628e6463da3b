// `vkattn info`: what there is to compute on.
#pragma once

#include "tool/options/arguments.hpp"

namespace vkattn::tool {

[[nodiscard]] program::ExitStatus infoCommand(const InfoArguments &arguments);

} // namespace vkattn::tool
