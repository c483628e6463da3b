// The attention weights of one head of one batch entry (or sequence of a ragged batch), and which
// pairs are visible. All measures are taken from this.
#pragma once

#include "analysis/spectra/matrix.hpp"

#include <cstdint>
#include <vector>

namespace vkattn::analysis {

struct HeadWeights {
    // [query, key]; hidden pairs count as 0 whatever they hold. Measures divide a row by its sum over the
    // visible keys, so that only the ratios within a row matter.
    Matrix weights;
    // What attention's own weights of each query sum to: 1, with a sink 1 less its share. Empty: as `weights`.
    std::vector<double> sums;
    // [query, key]: 1 where the query sees the key. A visible weight may be 0, where it underflows.
    std::vector<uint8_t> visible;
    // i' = i + shift is where query i stands among the keys: 0 for top-left, keys - queries for
    // bottom-right alignment. i' may lie outside the keys.
    int64_t shift = 0;

    [[nodiscard]] size_t queries() const { return weights.rows; }
    [[nodiscard]] size_t keys() const { return weights.columns; }
    [[nodiscard]] std::span<const uint8_t> visibleOf(size_t query) const { return {visible.data() + query * keys(), keys()}; }
    [[nodiscard]] int64_t position(size_t query) const { return static_cast<int64_t>(query) + shift; }
};

// A head of which the weights alone are known, with bottom-right alignment. A weight above 0 counts as
// visible and a weight of exactly 0 as hidden: weights do not tell a hidden pair from one that
// underflowed. A NaN counts as visible.
[[nodiscard]] HeadWeights fromWeights(Matrix weights);

// Only ordinary rows have measures. A row is empty where it sees nothing, or nothing with weight. A row with
// a NaN or infinite weight on a visible key is not finite.
enum class RowState : uint8_t { ordinary, empty, notFinite };

// p = weights / (their sum over the visible keys), 0 where hidden. A row that is not ordinary has zeros.
struct NormalizedRow {
    RowState state = RowState::empty;
    double sum = 0; // HeadWeights::sums, or of the visible weights
    uint64_t visible = 0;
};
[[nodiscard]] NormalizedRow normalize(const HeadWeights &head, size_t query, std::span<double> p);

// The same of all rows, [query, key].
[[nodiscard]] Matrix normalized(const HeadWeights &head);

} // namespace vkattn::analysis
