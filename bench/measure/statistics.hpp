// Attention and its statistics (vkattn/statistics.h), timed in turn: what statistics cost beside the
// forward pass.
#pragma once

#include "measure/passes.hpp"

namespace vkattn::bench {

// Statistics are counted as one product for each pass over the pairs.
[[nodiscard]] PassTable statisticsPasses();

} // namespace vkattn::bench
