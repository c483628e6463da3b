// `vkattn info`: what there is to compute on.
#pragma once

#include "program/failure.hpp"
#include "tool/options/info_arguments.hpp"

namespace vkattn::tool {

[[nodiscard]] program::ExitStatus infoCommand(const InfoArguments &arguments);

} // namespace vkattn::tool
