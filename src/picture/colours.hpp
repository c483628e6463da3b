// Colours of weights, and of what is no weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vkattn::picture {

struct Rgb {
    uint8_t red = 0, green = 0, blue = 0;
    friend bool operator==(const Rgb &, const Rgb &) = default;
};

enum class ColourMap { viridis, blues };
inline constexpr size_t mapEntries = 256;
[[nodiscard]] std::optional<ColourMap> colourMapOf(std::string_view name); // "viridis", "Blues"

[[nodiscard]] Rgb entryOf(ColourMap map, size_t entry);
// The entry nearest to value / largest; what is not finite is red.
[[nodiscard]] Rgb colourOf(ColourMap map, double value, double largest);

// No map has these: a hidden pair is no small weight.
inline constexpr Rgb hiddenGrey{0xd0, 0xd0, 0xd0}, notFiniteRed{0xe0, 0x10, 0x10};

// Of a class of heads, where the text beside it says which.
[[nodiscard]] Rgb kindColour(std::string_view kind);

[[nodiscard]] std::string hexOf(Rgb colour); // six digits

} // namespace vkattn::picture
