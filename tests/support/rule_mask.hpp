// The same problem with a full boolean mask in place of rules: the mask is built pair by pair from the
// papers' words, apart from the oracle, the CPU and the shaders.
#pragma once

#include "support/case.hpp"

#include <vector>

namespace vkattn::test {

// One byte for each pair, [batch or sequences, heads, queries, keys]: 1 where causal, window, prefix, grid,
// blocks and the case's own mask show the pair. Documents, lengths and the bias stay what they are.
[[nodiscard]] std::vector<unsigned char> maskOfRules(const conform::CaseData &data);

// A problem that says by a mask what `data` says by rules, on the same operands.
struct MaskedProblem {
    explicit MaskedProblem(const conform::CaseData &data);
    std::vector<unsigned char> mask;
    vkattn_problem problem;
    std::vector<vkattn_operand_memory> operands;
};

// Draws a case with rules: which of them `number` says, so that neighbouring numbers cover all of them.
[[nodiscard]] conform::Case drawRules(conform::Random &random, uint32_t number);

// So many tokens that tiles skip most keys: Longformer, dilated or not, BigBird, lists, and grids of rows
// and of planes.
inline constexpr uint32_t longRuleCases = 10;
[[nodiscard]] conform::Case longRules(conform::Random &random, uint32_t number);

} // namespace vkattn::test
