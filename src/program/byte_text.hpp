// Sizes as people read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

namespace vkattn::program {

// Returns a text such as "1.5 GiB".
inline std::string byteText(uint64_t bytes) {
    static constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < std::size(units); unit++) value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, value == static_cast<double>(static_cast<uint64_t>(value)) ? "%.0f %s" : "%.1f %s", value,
                  units[unit]);
    return text;
}

// Returns a text such as "8.59 G", of decimal thousands.
inline std::string amountText(double value) {
    if (std::isnan(value)) return "?"; // not known
    static constexpr const char *units[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < std::size(units); unit++) value /= 1000;
    char text[32];
    std::snprintf(text, sizeof text, "%.3g %s", value, units[unit]);
    return text;
}

} // namespace vkattn::program
