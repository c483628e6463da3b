// Attention and its backward pass, timed in turn: what training costs over the forward pass, and what
// dropout costs.
#pragma once

#include "measure/passes.hpp"

namespace vkattn::bench {

// The forward pass keeps its row statistics; a backward pass is counted as five products.
[[nodiscard]] PassTable gradientPasses();

} // namespace vkattn::bench
