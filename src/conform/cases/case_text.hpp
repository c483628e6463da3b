// A case as text: what differs from an ordinary Case{}, as "causal,heads=4,qStyle=padded". Letters,
// digits and , = : . - + only.
#pragma once

#include "conform/cases/case.hpp"

#include <span>
#include <string_view>

namespace vkattn::conform {

[[nodiscard]] std::string caseText(const Case &c);
[[nodiscard]] const char *dtypeNameOf(vkattn_dtype dtype); // "f32", "f16", "bf16"

// "'text'", for messages.
[[nodiscard]] inline std::string quoted(std::string_view text) {
    return std::string(1, '\'').append(text).append(1, '\'');
}

// Takes one member of a case's text, "heads=4" or "causal". False where there is no such member, or
// its value is wrong: `why` then says what was wrong and what was expected.
[[nodiscard]] bool parseMember(std::string_view member, Case &c, std::string &why);

// Empty, or why a case cannot be made: extents that disagree, or that would take minutes or
// gigabytes.
[[nodiscard]] std::string whyImpossible(const Case &c);

// The names of a case's members, in the order of its text.
[[nodiscard]] std::span<const char *const> memberNames();

} // namespace vkattn::conform
