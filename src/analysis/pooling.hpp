// A head's p at the resolution of a picture.
#pragma once

#include "analysis/head.hpp"

namespace vkattn::analysis {

// Cells are blocks of pairs with the largest p of each: a mean would hide single strong keys. With
// blocks of 1 x 1 the cells are the pairs.
struct PooledWeights {
    enum Cell : uint8_t { hidden, visible, notFinite };
    size_t queries = 0, keys = 0;           // of the head
    size_t rows = 0, columns = 0;           // of cells
    size_t blockRows = 1, blockColumns = 1; // the last blocks may be smaller
    std::vector<float> largest;             // [row, column]
    std::vector<uint32_t> places;           // [row, column]: where in its block the largest is, the first of several, by rows
    std::vector<Cell> cells;                // [row, column]: hidden where every pair is hidden; notFinite where any is
};
// At most `most` rows and columns, of square blocks.
[[nodiscard]] PooledWeights pool(const HeadWeights &head, size_t most);

} // namespace vkattn::analysis
