// The flash and decode kernels: fused attention in one pass over the keys, in tiles of query rows;
// decode with lanes along the keys. The kernels on matrix units (coopmat.hpp) have the same
// dispatches with other shaders.
#pragma once

#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"

#include <array>
#include <bit>
#include <span>

namespace vkattn {

// Members of the kernels' rows in the table (core/plan/kernel.hpp).
namespace flash {

[[nodiscard]] vkattn_result supported(const Kernel &, const PlanLimits &, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result makePlan(const Kernel &, const Problem &, const PlanLimits &, Plan &out, vkattn_diagnostic *why);
[[nodiscard]] uint32_t dispatchesPerRowChunk(const Plan &);
[[nodiscard]] Dispatch dispatch(const Plan &, uint32_t index);
// The environment and what is gathered behind it, and the lanes of a workgroup that gathers.
constexpr uint32_t environmentLanes = 64;
// The words of the environment that a problem has written: without dropout fewer.
[[nodiscard]] uint32_t environmentWordsOf(const Problem &);
[[nodiscard]] uint64_t environmentBytes(const Problem &);
// Sets what the options of a problem need of the environment, whichever pass reads it.
void setOptionWords(Environment &, const Problem &);
[[nodiscard]] uint32_t dimStride(const Tensor &);
template <uint32_t count, class Words> [[nodiscard]] std::array<uint32_t, count> wordsOf(const Words &words) {
    return std::bit_cast<std::array<uint32_t, count>>(words);
}
// The number-th of the dispatches that write an environment of these words to `whole`; the first one
// gathers what heads have.
void makeEnvironment(const Problem &, const Operand &whole, std::span<const uint32_t> words, Module, uint32_t number, Dispatch &);

[[nodiscard]] bool suits(const Problem &, const FlashTuning &);
void explain(const Plan &, vkattn_explanation &out);
void whyChosen(const Problem &, const FlashTuning &, char *text, size_t size);
[[nodiscard]] const char *whyNotChosen(const Plan &chosen, const FlashTuning &);

} // namespace flash

namespace decode {

[[nodiscard]] bool suits(const Problem &, const FlashTuning &);
void whyChosen(const Problem &, const FlashTuning &, char *text, size_t size);
[[nodiscard]] const char *whyNotChosen(const Plan &chosen, const FlashTuning &);

} // namespace decode

} // namespace vkattn
