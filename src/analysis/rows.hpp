// What is measured of one row of attention: of p = weights / (their sum over the visible keys), with
// natural logarithms and 0 ln 0 = 0. Distances are from i', where the query stands among the keys
// (docs/analysis.md).
#pragma once

#include "analysis/head.hpp"

namespace vkattn::analysis {

struct RowMeasures {
    RowState state = RowState::empty;
    double sum = 0;               // what attention's weights of the row sum to
    double entropy = 0;           // -sum p ln p, 0 to ln(visible)
    double largest = 0;           // the largest p
    int64_t largestKey = -1;      // its key, the lowest of several
    double distance = 0;          // sum p |j - i'|
    double diagonal = 0;          // p at j = i'; 0 where hidden or outside the keys
    double firstToken = 0;        // p at j = 0
    double squares = 0;           // sum p^2; its inverse counts keys
    uint64_t visible = 0;         // keys that the query sees
    double signedDistance = 0;    // sum p (j - i'): below 0 in the past
    double distanceDeviation = 0; // standard deviation of j - i' under p
    uint64_t neighbours = 0;      // visible keys at distance 1: 0, 1 or 2
    double neighbourMass = 0;     // sum of p over them
};

// Rows that are not ordinary have zeros and key -1, but for their sum and visible keys.
// `row` describes p.
[[nodiscard]] RowMeasures measureRow(const NormalizedRow &row, std::span<const double> p, std::span<const uint8_t> visible,
                                     int64_t position);

// The visible keys with the largest p, largest first, of equal p the lowest key first, as many as `keys` has
// room for. Where the row sees fewer, or is not ordinary, the rest has the key -1 and 0.
void largestKeys(const NormalizedRow &row, std::span<const double> p, std::span<const uint8_t> visible, std::span<int64_t> keys,
                 std::span<double> weights);

} // namespace vkattn::analysis
