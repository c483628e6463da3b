#include "tool/inspect/tokens.hpp"

#include "program/failure.hpp"
#include "program/legible_text.hpp"

#include <filesystem>
#include <fstream>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uintmax_t mostBytes = uintmax_t{1} << 30;

} // namespace

std::optional<std::vector<std::string>> parseTokens(std::string_view text, size_t most, std::string &why) {
    std::vector<std::string> tokens;
    constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(byteOrderMark)) text.remove_prefix(byteOrderMark.size());
    while (!text.empty()) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        const std::string where = "line " + std::to_string(tokens.size() + 1);
        if (!isUtf8(line)) {
            why = where + " is no UTF-8, expected UTF-8 text with one token a line: save it with encoding=\"utf-8\"";
            return {};
        }
        if (tokens.size() == most) {
            why = where + " is one token too many, expected at most " + std::to_string(most) +
                  ", one for each key: a token with a newline takes one line, write \\n in its place";
            return {};
        }
        tokens.emplace_back(line);
    }
    return tokens;
}

std::vector<std::string> readTokens(const std::string &path, size_t most) {
    std::error_code error;
    const auto fail = [&](const std::string &reason) { throw Failure(path + ": " + reason); };
    if (!std::filesystem::exists(path, error)) fail("there is no such file, expected a text file with one token a line");
    if (std::filesystem::is_directory(path, error)) fail("it is a folder, expected a text file with one token a line");
    std::ifstream file(path, std::ios::binary);
    std::string text;
    char chunk[65536];
    while (file && text.size() < mostBytes) {
        file.read(chunk, sizeof chunk);
        text.append(chunk, static_cast<size_t>(file.gcount()));
    }
    if (text.size() >= mostBytes) fail("it has 1 GiB or more, expected a text file with one token a line");
    if (!file.eof()) fail("it cannot be read: check its permissions");
    std::string why;
    std::optional<std::vector<std::string>> tokens = parseTokens(text, most, why);
    if (!tokens) fail(why);
    return *tokens;
}

} // namespace vkattn::tool
