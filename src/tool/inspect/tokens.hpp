// Names of keys, from a text file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tool {

// One token a line, in UTF-8; a line may be empty, the last newline may be missing, and lines may end in
// \r\n. Empty with the reason in `why` where it is no UTF-8 or has more than `most` lines.
[[nodiscard]] std::optional<std::vector<std::string>> parseTokens(std::string_view text, size_t most, std::string &why);

// Throws Failure.
[[nodiscard]] std::vector<std::string> readTokens(const std::string &path, size_t most);

} // namespace vkattn::tool
