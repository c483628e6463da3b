#include "analysis/pooling.hpp"

#include <algorithm>

namespace vkattn::analysis {

PooledWeights pool(const HeadWeights &head, size_t most) {
    PooledWeights pooled;
    pooled.queries = head.queries(), pooled.keys = head.keys();
    const size_t longest = std::max(pooled.queries, pooled.keys), block = std::max<size_t>(1, (longest + most - 1) / most);
    pooled.blockRows = pooled.blockColumns = block;
    pooled.rows = (pooled.queries + block - 1) / block, pooled.columns = (pooled.keys + block - 1) / block;
    pooled.largest.resize(pooled.rows * pooled.columns);
    pooled.places.resize(pooled.rows * pooled.columns);
    pooled.cells.resize(pooled.rows * pooled.columns, PooledWeights::hidden);
    std::vector<double> p(pooled.keys);
    for (size_t i = 0; i < pooled.queries; i++) {
        const RowState state = normalize(head, i, p).state;
        const std::span<const uint8_t> visible = head.visibleOf(i);
        for (size_t j = 0; j < pooled.keys; j++) {
            if (visible[j] == 0) continue;
            const size_t cell = i / block * pooled.columns + j / block;
            const auto weight = static_cast<float>(p[j]);
            if (weight > pooled.largest[cell] || pooled.cells[cell] == PooledWeights::hidden) {
                pooled.largest[cell] = weight;
                pooled.places[cell] = static_cast<uint32_t>(i % block * block + j % block);
            }
            // The whole row is of no use where one of its weights is not finite.
            if (state == RowState::notFinite)
                pooled.cells[cell] = PooledWeights::notFinite;
            else if (pooled.cells[cell] == PooledWeights::hidden)
                pooled.cells[cell] = PooledWeights::visible;
        }
    }
    return pooled;
}

} // namespace vkattn::analysis
