// Reading the values of options, shared by all commands. Functions that return nothing sensible throw Failure.
#pragma once

#include <vkattn/problem.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace vkattn::tool {

template <class Integer> bool parseInteger(std::string_view text, Integer &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

// "1,8,4096,64"; false where any part is not a whole number of 32 bits.
[[nodiscard]] bool parseList(const std::string &text, std::vector<uint32_t> &values);

// The index of a word among those allowed.
[[nodiscard]] size_t parseWord(const std::string &option, const std::string &text, std::span<const char *const> words);
[[nodiscard]] vkattn_kernel parseKernel(const std::string &option, const std::string &text);
[[nodiscard]] std::string kernelList(const char *first); // "auto, staged, ..." with `first` in place of "auto"

[[noreturn]] void badValue(const std::string &option, const std::string &expected, const std::string &value);

void refuseMissingValues(const CLI::App &app);

} // namespace vkattn::tool
