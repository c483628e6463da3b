// Small text helpers: parsing that accepts the whole text or nothing, and numbers as people read
// them.
#pragma once

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::bench {

template <class Number> [[nodiscard]] bool parseNumber(std::string_view text, Number &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

// Splits a text: "a,,b" has three parts, "" has one.
[[nodiscard]] inline std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (;;) {
        const size_t at = text.find(separator);
        parts.emplace_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

[[nodiscard]] inline std::string join(const std::vector<std::string> &parts, const char *separator) {
    std::string text;
    for (const std::string &part : parts) text += (text.empty() ? "" : separator) + part;
    return text;
}

[[nodiscard]] inline std::string decimals(double value, int count) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", count, value);
    return text;
}

// Returns three or four digits that mean something, never an exponent: 0.0123, 1.23, 12.3, 1234.
[[nodiscard]] inline std::string shortNumber(double value) {
    const double magnitude = value < 0 ? -value : value;
    return decimals(value, magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 0.1 ? 2 : 4);
}

[[nodiscard]] inline std::string byteText(uint64_t bytes) {
    static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
    const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
    return decimals(value, whole ? 0 : 1) + " " + units[unit];
}

} // namespace vkattn::bench
