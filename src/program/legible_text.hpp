// Strings from drivers, files and child processes, made fit to be shown. They may hold any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn::program {

[[nodiscard]] bool isUtf8(std::string_view text);
// Returns valid UTF-8 without characters that a terminal obeys or XML 1.0 cannot hold. Bytes that
// are not UTF-8, control characters except newline and tab, noncharacters, and marks that turn the
// direction of text become U+FFFD.
[[nodiscard]] std::string legible(std::string_view text);
// Returns the text on one line. A text longer than `characters` ends in an ellipsis.
[[nodiscard]] std::string legibleLine(std::string_view text, size_t characters = SIZE_MAX);
// Returns legible text in which neither HTML nor XML finds markup, also within quotes.
[[nodiscard]] std::string escapeMarkup(std::string_view text);
// Returns one word of a POSIX shell, in quotes where the word needs them.
[[nodiscard]] std::string shellWord(std::string_view text);
// Returns the number of UTF-8 characters, which terminals count (except wide ones).
[[nodiscard]] size_t characterCount(std::string_view text);

} // namespace vkattn::program
