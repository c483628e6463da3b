// A token each of many sequences that share a prefix: each sequence with keys of its own, and as a cascade.
#pragma once

#include "measure/passes.hpp"

namespace vkattn::bench {

// `tokens` of a shape are those of the prefix; a pass is counted as the products of its pairs.
[[nodiscard]] PassTable cascadePasses();

} // namespace vkattn::bench
