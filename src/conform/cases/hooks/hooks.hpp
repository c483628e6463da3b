// Conform's program (hooks.glsl), compiled with the library: hooks of scores, of visibility, of probabilities, of rows.
#pragma once

#include "vkattn/problem.h"

namespace vkattn::conform {

enum class Hooks { none, score, visible, both, probability, all, row, sigmoid };
[[nodiscard]] constexpr bool changeScores(Hooks hooks) {
    return hooks == Hooks::score || hooks == Hooks::both || hooks == Hooks::all;
}
[[nodiscard]] constexpr bool hidePairs(Hooks hooks) {
    return hooks == Hooks::visible || hooks == Hooks::both || hooks == Hooks::all;
}
[[nodiscard]] constexpr bool weighProbabilities(Hooks hooks) {
    return hooks == Hooks::probability || hooks == Hooks::all || hooks == Hooks::row;
}
// Weights are no shares of a sum.
[[nodiscard]] constexpr bool areSumless(Hooks hooks) {
    return hooks == Hooks::row || hooks == Hooks::sigmoid;
}
// For what asks for sums.
[[nodiscard]] constexpr Hooks withSums(Hooks hooks) {
    return hooks == Hooks::row ? Hooks::probability : hooks == Hooks::sigmoid ? Hooks::visible : hooks;
}
// For what takes neither hooks of probabilities nor of rows: kernels on matrix units.
[[nodiscard]] constexpr Hooks withoutWeighing(Hooks hooks) {
    hooks = withSums(hooks);
    return hooks == Hooks::all ? Hooks::both : hooks == Hooks::probability ? Hooks::visible : hooks;
}

// Words of its buffers; what it reads past their end is their last word.
constexpr uint32_t hookNumbers = 50, hookBits = 40;

// NULL for none. With the form for the processor.
[[nodiscard]] const vkattn_program *programOf(Hooks hooks);

} // namespace vkattn::conform
