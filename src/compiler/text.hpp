// The text of a program, read as far as it must be known before a compiler sees it: which hooks it has, and
// what a program may not hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn::compiler {

struct Hook {
    uint32_t bit; // vkattn_hook_bits
    const char *name;
    const char *define;
    const char *returns;
    const char *parameters; // their types, as "float, uint"
    const char *signature;  // in messages
};
inline constexpr const char *pairTypes = "uint, uint, uint, uint", *scoreTypes = "float, uint, uint, uint, uint", *rowTypes = "float";
// A program has one of these at least.
inline constexpr uint32_t hooksThatStandAlone = 1 | 2 | 8 | 16;
inline constexpr Hook hooks[] = {
    {1, "vkattnScore", "VKATTN_HOOK_SCORE", "float", scoreTypes,
     "float vkattnScore(float score, uint batch, uint head, uint query, uint key)"},
    {2, "vkattnVisible", "VKATTN_HOOK_VISIBLE", "bool", pairTypes, "bool vkattnVisible(uint batch, uint head, uint query, uint key)"},
    {4, "vkattnScoreSlope", "VKATTN_HOOK_SCORE_SLOPE", "float", scoreTypes,
     "float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key)"},
    {8, "vkattnProbability", "VKATTN_HOOK_PROBABILITY", "float", scoreTypes,
     "float vkattnProbability(float p, uint batch, uint head, uint query, uint key)"},
    {16, "vkattnRow", "VKATTN_HOOK_ROW", "float", rowTypes, "float vkattnRow(float score)"},
};

// Returns the bits of the hooks that `text` defines; 0 with the reason in `error`, as "NAME:LINE: ...".
[[nodiscard]] uint32_t hooksOf(std::string_view text, std::string_view name, std::string &error);

} // namespace vkattn::compiler
