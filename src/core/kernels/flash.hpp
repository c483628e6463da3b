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
// Splits of the chunks of keys before a chunk.
[[nodiscard]] uint32_t splitsBefore(const Plan &, uint32_t keyChunk);
// The words of the environment that a problem has written: without dropout fewer.
[[nodiscard]] uint32_t environmentWordsOf(const Problem &);
// Of an environment whose own words take so many bytes, and of what is gathered behind them.
[[nodiscard]] uint64_t environmentBytes(const Problem &, uint64_t ownBytes = sizeof(Environment));
// Places an environment behind the table of sequences: its own words take `ownBytes`, `words` of them are
// written, and what heads have is gathered behind them. Returns false where that is too much for the device.
[[nodiscard]] bool placeEnvironment(Plan &, uint32_t words, uint64_t ownBytes, const Caps &);
[[nodiscard]] Operand environmentOperand(const Plan &, uint64_t ownBytes, bool writes);
// Sets what the options of a problem need of the environment, whichever pass reads it.
void setOptionWords(Environment &, const Problem &);
[[nodiscard]] uint32_t dimStride(const Tensor &);
template <uint32_t count, class Words> [[nodiscard]] std::array<uint32_t, count> wordsOf(const Words &words) {
    return std::bit_cast<std::array<uint32_t, count>>(words);
}
// The number-th of the dispatches of `module` that write words to the beginning of `whole`.
void makeWords(const Operand &whole, std::span<const uint32_t> words, Module module, uint32_t number, Dispatch &);
// The index-th dispatch of the set-up: the table of sequences of a ragged batch, then those of `module`, which
// write these words of the environment; the first of them gathers what heads have.
void makeSetUp(const Plan &, uint64_t ownBytes, std::span<const uint32_t> words, Module module, uint32_t index, Dispatch &);

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
