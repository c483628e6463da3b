// `vkattn info`: what there is to compute on.
#pragma once

#include "arguments.hpp"

namespace vkattn::tool {

[[nodiscard]] ExitStatus infoCommand(const InfoArguments &arguments);

} // namespace vkattn::tool
