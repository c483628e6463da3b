// Attention through layers (Abnar & Zuidema 2020).
#pragma once

#include "analysis/head.hpp"

namespace vkattn::analysis {

// The mean over heads of p, [query, key]. A row counts the heads in which it is ordinary.
[[nodiscard]] Matrix meanOfHeads(std::span<const HeadWeights> heads);

// The product of (A + I) / 2 over layers, the first layer first, each with its rows renormalised where their
// sum is above 0. `layers` are square and of one size: means over heads. No layers: the empty matrix.
[[nodiscard]] Matrix rollout(std::span<const Matrix> layers);

} // namespace vkattn::analysis
