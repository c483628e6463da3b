// The reader of tokens files. The first two bytes are the number of keys.
#include "fuzz/shared/fuzz.hpp"
#include "program/legible_text.hpp"
#include "tool/inspect/tokens.hpp"

#include <algorithm>

using namespace vkattn::test;
using namespace vkattn::tool;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const size_t most = bytes.raw<uint16_t>();
    std::string text;
    while (!bytes.empty()) text += bytes.raw<char>();
    std::string why;
    const std::optional<std::vector<std::string>> tokens = parseTokens(text, most, why);
    const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    if (!tokens) {
        require(why.starts_with("line ") && why.size() < 256);
        // One of the two reasons holds.
        require(!vkattn::program::isUtf8(text) || lines + 1 > most);
        return 0;
    }
    require(tokens->size() <= most && tokens->size() <= lines + 1 && tokens->size() >= lines);
    size_t total = 0;
    for (const std::string &token : *tokens) {
        require(token.find('\n') == std::string::npos && vkattn::program::isUtf8(token));
        total += token.size();
    }
    require(total + lines <= text.size());
    return 0;
}
