// VkPhysicalDeviceProperties::apiVersion as people write it.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::program {

inline std::string vulkanVersionText(uint32_t version) {
    return std::to_string(version >> 22 & 0x7f) + "." + std::to_string(version >> 12 & 0x3ff) + "." + std::to_string(version & 0xfff);
}

} // namespace vkattn::program
