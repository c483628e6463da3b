// The members of a case as text: "heads=4", "causal".
#pragma once

#include "conform/cases/case.hpp"

#include <string_view>
#include <type_traits>

namespace vkattn::conform {

// The words of an enumeration, by value.
template <class Enum> struct Words;
template <> struct Words<vkattn_dtype> {
    static constexpr const char *list[] = {"f32", "f16", "bf16", "bool8", "bits32", "fp8e4m3", "fp8e5m2", "q8_0", "q4_0", "int8"};
};
template <> struct Words<vkattn_score_stage> { static constexpr const char *list[] = {"raw", "scaled", "capped", "final"}; };
template <> struct Words<Style> { static constexpr const char *list[] = {"packed", "tokenMajor", "padded", "dimMajor", "reversed"}; };
template <> struct Words<Data> { static constexpr const char *list[] = {"normal", "needle", "equal", "extreme", "denormal"}; };
template <> struct Words<Grid> { static constexpr const char *list[] = {"none", "clamped", "cut", "windows"}; };
template <> struct Words<Hooks> {
    static constexpr const char *list[] = {"none", "score", "visible", "both", "probability", "all", "row", "sigmoid"};
};
template <> struct Words<Blocks> { static constexpr const char *list[] = {"none", "mask", "lists", "indices", "bigBird"}; };
template <> struct Words<Documents> { static constexpr const char *list[] = {"none", "runs", "random"}; };

[[nodiscard]] std::string valueText(uint32_t value);
[[nodiscard]] std::string valueText(int32_t value);
[[nodiscard]] std::string valueText(TokenOffset value);
[[nodiscard]] std::string valueText(float value);
[[nodiscard]] std::string valueText(bool value);
[[nodiscard]] std::string valueText(const std::string &value);
[[nodiscard]] std::string valueText(vkattn_kernel kernel);
[[nodiscard]] std::string valueText(const std::vector<SequenceLength> &lengths); // "5x1100:0x9"
template <class Enum>
requires std::is_enum_v<Enum>
[[nodiscard]] std::string valueText(Enum value) {
    return Words<Enum>::list[static_cast<size_t>(value)];
}
template <class Value> [[nodiscard]] std::string valueText(const std::optional<Value> &value) {
    return value ? valueText(*value) : "none";
}

// NULL, or what was expected where the text is no such value.
[[nodiscard]] const char *parseValue(std::string_view from, uint32_t &value);
[[nodiscard]] const char *parseValue(std::string_view from, int32_t &value);
[[nodiscard]] const char *parseValue(std::string_view from, TokenOffset &value);
[[nodiscard]] const char *parseValue(std::string_view from, float &value);
[[nodiscard]] const char *parseValue(std::string_view from, bool &value);
[[nodiscard]] const char *parseValue(std::string_view from, std::string &value);
[[nodiscard]] const char *parseValue(std::string_view from, vkattn_kernel &kernel);
[[nodiscard]] const char *parseValue(std::string_view from, std::vector<SequenceLength> &lengths);
template <class Enum>
requires std::is_enum_v<Enum>
[[nodiscard]] const char *parseValue(std::string_view from, Enum &value) {
    static const std::string expected = [] {
        std::string all;
        for (const char *word : Words<Enum>::list) all.append(all.empty() ? "" : ", ").append(word);
        return "one of " + all;
    }();
    for (size_t n = 0; n < std::size(Words<Enum>::list); ++n)
        if (from == Words<Enum>::list[n]) return value = static_cast<Enum>(n), nullptr;
    return expected.c_str();
}
template <class Value> [[nodiscard]] const char *parseValue(std::string_view from, std::optional<Value> &value) {
    if (from == "none") return value.reset(), nullptr;
    return parseValue(from, value.emplace());
}

struct Member {
    const char *name;
    bool flag; // the name alone means 1
    std::string (*get)(const Case &);
    const char *(*set)(std::string_view, Case &);
    void (*reset)(Case &); // to what an ordinary case has
};

template <auto at> [[nodiscard]] constexpr Member member(const char *name) {
    using Value = std::remove_cvref_t<decltype(std::declval<Case &>().*at)>;
    return {name, std::is_same_v<Value, bool>, [](const Case &c) { return valueText(c.*at); },
            [](std::string_view from, Case &c) { return parseValue(from, c.*at); }, [](Case &c) { c.*at = Case{}.*at; }};
}

} // namespace vkattn::conform
