#include "conform/cases/members.hpp"

#include <charconv>
#include <cstdlib>
#include <system_error>

namespace vkattn::conform {
namespace {

template <class Number> std::string numberText(Number value) {
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return {text, end};
}
template <class Number> bool numberOf(std::string_view text, Number &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

} // namespace

std::string valueText(uint32_t value) {
    return numberText(value);
}
std::string valueText(TokenOffset value) {
    return std::to_string(value.tokens);
}
std::string valueText(int32_t value) {
    return numberText(value);
}
std::string valueText(float value) {
    return numberText(value);
}
std::string valueText(bool value) {
    return value ? "1" : "0";
}
std::string valueText(const std::string &value) {
    return value;
}
std::string valueText(const std::vector<SequenceLength> &lengths) {
    std::string all;
    for (const SequenceLength &s : lengths)
        all.append(all.empty() ? "" : ":").append(valueText(s.queries)).append("x").append(valueText(s.keys));
    return all;
}
std::string valueText(vkattn_kernel kernel) {
    return vkattnKernelName(kernel);
}

const char *parseValue(std::string_view from, uint32_t &value) {
    return numberOf(from, value) ? nullptr : "a whole number of 0 or more";
}
const char *parseValue(std::string_view from, int32_t &value) {
    return numberOf(from, value) && value >= -1 ? nullptr : "a whole number of -1 or more";
}
const char *parseValue(std::string_view from, TokenOffset &value) {
    const bool fits = numberOf(from, value.tokens) && std::abs(int64_t{value.tokens}) <= VKATTN_MAX_OFFSET;
    return fits ? nullptr : "a whole number from -268435456 to 268435456";
}
const char *parseValue(std::string_view from, float &value) {
    return numberOf(from, value) ? nullptr : "a number, inf or nan";
}
const char *parseValue(std::string_view from, bool &value) {
    value = from != "0";
    return from == "0" || from == "1" ? nullptr : "0 or 1";
}
const char *parseValue(std::string_view from, std::string &value) {
    value = from;
    for (const char c : from)
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return "letters, digits, _ and -";
    return from.size() <= 200 ? nullptr : "at most 200 letters";
}
const char *parseValue(std::string_view from, vkattn_kernel &kernel) {
    static const std::string expected = [] {
        std::string all = "one of auto";
        for (const vkattn_kernel each : KernelList()) all.append(", ").append(vkattnKernelName(each));
        return all;
    }();
    if (from == vkattnKernelName(VKATTN_KERNEL_AUTO)) return kernel = VKATTN_KERNEL_AUTO, nullptr;
    for (const vkattn_kernel each : KernelList())
        if (from == vkattnKernelName(each)) return kernel = each, nullptr;
    return expected.c_str();
}
const char *parseValue(std::string_view from, std::vector<SequenceLength> &lengths) {
    static constexpr const char *expected = "up to 64 lengths QUERIESxKEYS like 5x11:0x9";
    lengths.clear();
    while (!from.empty()) {
        const std::string_view one = from.substr(0, from.find(':'));
        from.remove_prefix(std::min(from.size(), one.size() + 1));
        const size_t x = one.find('x');
        SequenceLength s{};
        if (x == std::string_view::npos || lengths.size() == 64 || !numberOf(one.substr(0, x), s.queries) ||
            !numberOf(one.substr(x + 1), s.keys))
            return expected;
        lengths.push_back(s);
    }
    return nullptr;
}

} // namespace vkattn::conform
