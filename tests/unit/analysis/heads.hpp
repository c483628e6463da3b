// Heads made by hand, for tests of src/analysis.
#pragma once

#include "analysis/measures.hpp"
#include "support/seed.hpp"

#include <functional>

namespace vkattn::test {

// Of weight(i, j), which is hidden where it is 0; i' = i + keys - queries.
[[nodiscard]] analysis::HeadWeights headOf(size_t queries, size_t keys, const std::function<double(size_t i, size_t j)> &weight);

[[nodiscard]] analysis::HeadWeights identityHead(size_t n);
[[nodiscard]] analysis::HeadWeights uniformHead(size_t n);
[[nodiscard]] analysis::HeadWeights causalUniformHead(size_t n);
// Uniform over |j - i| <= 1.
[[nodiscard]] analysis::HeadWeights bandedHead(size_t n);
// All on `key`; the other keys are visible.
[[nodiscard]] analysis::HeadWeights oneHotHead(size_t n, size_t key);
// Uniform within each half.
[[nodiscard]] analysis::HeadWeights blocksHead(size_t n);

// N(0, 1).
[[nodiscard]] double normal(Random &random);
// Softmax of N(0, 1) logits, or of q k / sqrt(dim) of N(0, 1) vectors; causal hides j > i.
[[nodiscard]] analysis::HeadWeights logitsHead(Random &random, size_t n, bool causal = false);
[[nodiscard]] analysis::HeadWeights dotsHead(Random &random, size_t n, size_t dim, bool causal = false);

} // namespace vkattn::test
