// The staged kernel: scores, softmax and values as dispatches of their own. Every option; memory of
// size queries x keys, in chunks.
#pragma once

#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"

namespace vkattn::staged {

// The members of its row in the table (core/plan/kernel.hpp).
[[nodiscard]] vkattn_result supported(const Kernel &, const PlanLimits &, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result makePlan(const Kernel &, const Problem &, const PlanLimits &, Plan &out, vkattn_diagnostic *why);
[[nodiscard]] uint32_t dispatchesPerRowChunk(const Plan &);
[[nodiscard]] Dispatch dispatch(const Plan &, uint32_t index);
void explain(const Plan &, vkattn_explanation &out);
void whyChosen(const Problem &, const FlashTuning &, char *text, size_t size);
[[nodiscard]] const char *whyNotChosen(const Plan &chosen, const FlashTuning &);

// Dispatches of a chunk, which the backward pass has too (core/gradient/staged.cpp). The scores lie from
// Plan::setUpBytes on.
void makeScores(const Plan &, const Chunk &, Dispatch &);
// The terms that take a dispatch of staged/pairs.comp each; softcap is in the scores', dropout in the
// softmax's. `elsewhere`: terms that a pass applies by itself.
[[nodiscard]] uint32_t termsOfPairs(const Problem &, uint32_t elsewhere = 0);
// The dispatch of the number-th of the terms.
void makePairs(const Plan &, const Chunk &, uint32_t terms, uint32_t number, Dispatch &);
void makeValues(const Plan &, const Chunk &, bool firstKeys, bool lastKeys, Dispatch &);

} // namespace vkattn::staged
