#include "tool/version.hpp"

#include <vkattn/vkattn.h>

namespace vkattn::tool {

std::string versionText() {
    const uint32_t version = vkattnVersion();
    return std::to_string(version >> 22) + "." + std::to_string(version >> 12 & 0x3ff) + "." + std::to_string(version & 0xfff);
}

} // namespace vkattn::tool
