// What `vkattn inspect` has found, as pictures and the page show it.
#pragma once

#include "picture/heads.hpp"
#include "tool/inspect/inspection.hpp"

#include <string>

namespace vkattn::tool {

[[nodiscard]] picture::Heads headsOf(const Inspection &inspection);

// The files of --png within its folder: all heads, then each: "heads.png", "batch0_head1.png".
[[nodiscard]] std::vector<std::string> pictureNames(uint32_t batch, uint32_t heads);
// The bytes of the file of that place.
[[nodiscard]] std::string pictureBytes(const picture::Heads &heads, size_t place);

} // namespace vkattn::tool
