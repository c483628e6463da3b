// Which version the tool is.
#pragma once

#include <string>

namespace vkattn::tool {

// "0.1.0", of the library that is linked.
[[nodiscard]] std::string versionText();

} // namespace vkattn::tool
