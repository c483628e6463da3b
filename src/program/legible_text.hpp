// Strings from drivers, files and child processes, made fit to be shown: any bytes may be in them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn::program {

// Valid UTF-8 without what a terminal obeys or XML 1.0 cannot hold: bytes that are not UTF-8,
// control characters but newline and tab, noncharacters and marks that turn the direction of text
// become U+FFFD.
[[nodiscard]] std::string legible(std::string_view text);
// On one line, and where it is longer than `characters` cut at its end with an ellipsis.
[[nodiscard]] std::string legibleLine(std::string_view text, size_t characters = SIZE_MAX);
// Legible, and neither HTML nor XML finds markup in it, also within quotes.
[[nodiscard]] std::string escapeMarkup(std::string_view text);
// One word of a POSIX shell, in quotes where it needs them.
[[nodiscard]] std::string shellWord(std::string_view text);
// Characters of UTF-8, which is what terminals count (wide ones aside).
[[nodiscard]] size_t characterCount(std::string_view text);

} // namespace vkattn::program
