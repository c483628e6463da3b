// How alike heads are.
#pragma once

#include "analysis/head.hpp"

namespace vkattn::analysis {

// Rows of a head's p, and which of them are ordinary: all rows, or every so many-th where heads are large.
struct HeadRows {
    Matrix p;
    std::vector<uint8_t> ordinary; // of each row
};
// `stride`: 1 takes all rows.
[[nodiscard]] HeadRows headRows(const HeadWeights &head, size_t stride = 1);

// [H, H]: the mean over rows of the Jensen-Shannon divergence, 0 (the same) to ln 2. Rows that are ordinary
// in both heads count; NaN where there is no such row. The heads have the same extents.
[[nodiscard]] Matrix jensenShannon(std::span<const HeadRows> heads);

// [H, H]: the cosine of the flattened p over the same rows; NaN where there is none.
[[nodiscard]] Matrix cosine(std::span<const HeadRows> heads);

// [H, H]: linear CKA of the heads' outputs [query, dim] (Kornblith et al. 2019), whose columns are centred
// here; NaN where an output is constant.
[[nodiscard]] Matrix linearCka(std::span<const Matrix> outputs);

} // namespace vkattn::analysis
