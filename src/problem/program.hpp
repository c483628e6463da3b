// What a problem has of a program: its hooks, and what they read. Checked; the SPIR-V is the core's to look at.
#pragma once

#include "vkattn/problem.h"

#include <cstdint>
#include <type_traits>

namespace vkattn {

// Shaders have the same numbers (lib/table.h).
constexpr uint32_t programWords = std::extent_v<decltype(vkattn_problem::programWords)>;
constexpr uint32_t programBuffers = std::extent_v<decltype(vkattn_problem::programBufferWords)>;

// In messages.
[[nodiscard]] constexpr const char *nameOf(const vkattn_program &program) {
    return program.name ? program.name : "without a name";
}

struct ProgramUse {
    const vkattn_program *program = nullptr;
    uint32_t hooks = 0; // vkattn_hook_bits; 0: there is no program
    uint32_t words[programWords] = {};
    uint32_t bufferWords[programBuffers] = {};

    [[nodiscard]] constexpr bool scores() const { return (hooks & VKATTN_HOOK_SCORE) != 0; }
    [[nodiscard]] constexpr bool hides() const { return (hooks & VKATTN_HOOK_VISIBLE) != 0; }
    [[nodiscard]] constexpr bool weighs() const { return (hooks & VKATTN_HOOK_PROBABILITY) != 0; }
    // Weights are no shares of a sum.
    [[nodiscard]] constexpr bool sumless() const { return (hooks & VKATTN_HOOK_ROW) != 0; }
};

// Checks what a problem says of its program, and sets `out`.
[[nodiscard]] vkattn_result makeProgramUse(const vkattn_problem &description, ProgramUse &out, vkattn_diagnostic *why);

} // namespace vkattn
