// Reading the values of options, shared by all commands. Functions that return nothing sensible
// throw Failure.
#pragma once

#include <vkattn/problem.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace vkattn::program {

template <class Integer> bool parseInteger(std::string_view text, Integer &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

// What stands between the commas of a list, at least one text; texts may be empty.
[[nodiscard]] std::vector<std::string> partsOfList(const std::string &text);

// "1,8,4096,64"; false where any part is not a whole number of 32 bits.
[[nodiscard]] bool parseList(const std::string &text, std::vector<uint32_t> &values);

// The index of a word among those allowed.
[[nodiscard]] size_t parseWord(const std::string &option, const std::string &text, std::span<const char *const> words);
// By vkattn_dtype.
inline constexpr std::array<const char *, 10> dtypeNames = {"f32",     "f16",     "bf16", "bool8", "bits32",
                                                            "fp8e4m3", "fp8e5m2", "q8_0", "q4_0",  "int8"};
// A type of caches that is smaller than the numbers it stands for, the value of --kv-type.
inline constexpr const char *cacheTypes = "fp8e4m3|fp8e5m2|q8_0|q4_0|int8";
[[nodiscard]] vkattn_dtype parseCacheType(const std::string &option, const std::string &text);
[[nodiscard]] vkattn_kernel parseKernel(const std::string &option, const std::string &text);
// "auto, staged, ..." with `first` in place of "auto"
[[nodiscard]] std::string kernelList(const char *first);

// From 1 to `most`.
[[nodiscard]] uint32_t parseWhole(const std::string &option, const std::string &text, uint32_t most);

// "1024", "512MiB": from 1 byte to 2^63 - 1, in KiB, MiB, GiB or TiB where one of them follows.
[[nodiscard]] uint64_t parseBytes(const std::string &option, const std::string &text);

// An option whose value `read` takes when the command line is parsed; where it is none, `read`
// throws Failure.
CLI::Option *addValue(CLI::App &app, const std::string &name, const char *type, const std::string &text,
                      std::function<void(const std::string &)> read);

[[noreturn]] void badValue(const std::string &option, const std::string &expected, const std::string &value);

// Throws Failure where what was taken for a value is another option, or nothing.
void refuseMissingValue(const CLI::Option &option, const std::string &value);
// Of options whose value is any text: addValue() has looked at the others.
void refuseMissingValues(const CLI::App &app);

} // namespace vkattn::program
