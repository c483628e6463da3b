// How much of a problem there is to compute: pairs of a query and a key that causal, window and
// extents leave visible. What masks, documents and lengths hide is data, which planning does not
// see.
#pragma once

#include "problem/problem.hpp"

namespace vkattn {

// Of one head of one batch entry: the first `rows` queries with the first `keys` keys. Of a ragged
// batch, as if a sequence had all that it may.
[[nodiscard]] double visiblePairs(const Problem &p, uint32_t rows, uint32_t keys);
[[nodiscard]] double visiblePairs(const Problem &p); // all of it
[[nodiscard]] double visibleFlops(const Problem &p); // 2 for each multiply-add of both products

// The most keys, of `keys`, that a query may see; at least 1.
[[nodiscard]] uint32_t reach(const Problem &p, uint32_t keys);
// Whether some queries see more keys than others.
[[nodiscard]] bool rowsDiffer(const Problem &p);

} // namespace vkattn
