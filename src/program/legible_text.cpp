#include "program/legible_text.hpp"

#include <algorithm>

namespace vkattn::program {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD
constexpr char32_t invalid = 0xFFFFFFFF;

struct Character {
    char32_t code; // invalid: one byte that is not part of UTF-8
    size_t bytes;
};

Character characterAt(std::string_view text, size_t at) {
    const auto byte = [&](size_t n) { return static_cast<unsigned char>(text[n]); };
    const unsigned first = byte(at);
    if (first < 0x80) return {first, 1};
    const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || text.size() - at < bytes) return {invalid, 1};
    char32_t code = first & (0xFFu >> (bytes + 1));
    for (size_t n = 1; n < bytes; n++) {
        if ((byte(at + n) & 0xC0u) != 0x80) return {invalid, 1};
        code = code << 6 | (byte(at + n) & 0x3Fu);
    }
    constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool wrong = code < smallest[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF);
    return wrong ? Character{invalid, 1} : Character{code, bytes};
}

bool isLegible(char32_t code) {
    if (code < 0x20) return code == '\n' || code == '\t';
    if (code >= 0x7F && code <= 0x9F) return false;
    if ((code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || (code >= 0xFDD0 && code <= 0xFDEF)) return false;
    return (code & 0xFFFE) != 0xFFFE && code <= 0x10FFFF;
}

} // namespace

bool isUtf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const Character character = characterAt(text, at);
        if (character.code == invalid) return false;
        at += character.bytes;
    }
    return true;
}

std::string legible(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const Character character = characterAt(text, at);
        out += isLegible(character.code) ? text.substr(at, character.bytes) : replacement;
        at += character.bytes;
    }
    return out;
}

std::string legibleLine(std::string_view text, size_t characters) {
    std::string line = legible(text);
    for (char &c : line)
        if (c == '\n' || c == '\t') c = ' ';
    if (characterCount(line) <= characters) return line;
    size_t end = 0;
    for (size_t n = 1; n < characters; n++) end += characterAt(line, end).bytes;
    while (end > 0 && line[end - 1] == ' ') end--;
    return line.substr(0, end) + "\xE2\x80\xA6";
}

std::string escapeMarkup(std::string_view text) {
    std::string out;
    for (const char c : legible(text)) switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&#39;";
            break;
        default:
            out += c;
        }
    return out;
}

std::string shellWord(std::string_view text) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,.:/+";
    if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
    std::string out = "'";
    for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
    return out + "'";
}

size_t characterCount(std::string_view text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80; }));
}

} // namespace vkattn::program
