// The oracle's rules of visibility that have a shape of their own: the grids and the blocks of problem.h, in
// its words. cpu/rules.hpp and the shaders state them otherwise; they share nothing with this.
#pragma once

#include "cpu/sequences.hpp"
#include "util/philox.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

namespace vkattn::oracle {

// Whether coordinate `to` of an axis lies in the box of coordinate `from`.
[[nodiscard]] inline bool axisShows(vkattn_grid_rule rule, int64_t extent, int64_t size, int64_t shift, int64_t from, int64_t to) {
    if (rule == VKATTN_GRID_CUT) return std::abs(to - from) <= size / 2;
    if (rule == VKATTN_GRID_CLAMPED) {
        int64_t begin = from - size / 2;
        if (begin + size > extent) begin = extent - size;
        if (begin < 0) begin = 0;
        return begin <= to && to < begin + size;
    }
    // Windows end at shift, shift + size and so on: the number of ends up to a coordinate tells its window.
    const auto window = [&](int64_t c) { return c < shift ? int64_t{0} : 1 + (c - shift) / size; };
    return window(from) == window(to);
}

[[nodiscard]] inline bool boxShows(const vkattn_grid &grid, int64_t position, int64_t key) {
    if (grid.rule == VKATTN_GRID_NONE) return true;
    if (position < 0) return false;
    for (int axis = 2; axis >= 0; --axis) { // columns first
        const int64_t extent = grid.extent[axis];
        if (!axisShows(grid.rule, extent, grid.size[axis], grid.shift[axis], position % extent, key % extent)) return false;
        position /= extent, key /= extent;
    }
    return position == 0; // past the last plane there is nothing
}

// Which columns of blocks row `row` of head h in batch entry b shows.
class RowOfBlocks {
  public:
    RowOfBlocks(const Problem &p, const Operands &operands, uint32_t b, uint32_t h, uint32_t row)
        : keys_(std::max(p.rules.blocks.keys, 1u)), all_(p.rules.blocks.kind == VKATTN_BLOCKS_NONE) {
        if (all_) return;
        const vkattn_blocks &blocks = p.rules.blocks;
        shown_.assign(p.rules.blockColumns, false);
        const uint64_t plane = (blocks.batches == 1 ? 0 : uint64_t{b} * blocks.heads) + (blocks.heads == 1 ? 0 : h);
        const uint64_t item = plane * p.rules.blockRows + row;
        const auto take = [&](vkattn_role role, uint64_t at) {
            const uint32_t column = operands.word(role, at);
            if (column < shown_.size()) shown_[column] = true;
        };
        if (blocks.kind == VKATTN_BLOCKS_MASK)
            for (size_t n = 0; n < shown_.size(); ++n) shown_[n] = operands.data[VKATTN_BLOCK_MASK][item * shown_.size() + n] != 0;
        if (blocks.kind == VKATTN_BLOCKS_LISTS)
            for (uint64_t n = operands.word(VKATTN_BLOCK_ROWS, item + plane);
                 n < operands.word(VKATTN_BLOCK_ROWS, item + plane + 1) && n < blocks.entries; ++n)
                take(VKATTN_BLOCK_COLUMNS, n);
        if (blocks.kind == VKATTN_BLOCKS_INDICES)
            for (uint32_t n = 0; n < blocks.entries; ++n) {
                if (n < operands.word(VKATTN_BLOCK_COUNTS, item)) take(VKATTN_BLOCK_INDICES, item * blocks.entries + n);
                if (blocks.full && n < operands.word(VKATTN_FULL_BLOCK_COUNTS, item))
                    take(VKATTN_FULL_BLOCK_INDICES, item * blocks.entries + n);
            }
        if (blocks.kind == VKATTN_BLOCKS_BIGBIRD) drawBigBird(blocks, h, row);
    }
    [[nodiscard]] bool shows(uint32_t j) const { return all_ || shown_[j / keys_]; }

  private:
    void drawBigBird(const vkattn_blocks &blocks, uint32_t h, uint32_t row) {
        const int64_t n = static_cast<int64_t>(shown_.size()), a = row;
        std::vector<uint32_t> others;
        for (int64_t c = 0; c < n; ++c) {
            const bool shown = a == 0 || a == n - 1 || c == 0 || c == n - 1 || std::abs(c - a) <= 1;
            shown_[static_cast<size_t>(c)] = shown;
            if (!shown) others.push_back(static_cast<uint32_t>(c));
        }
        for (uint32_t draw = 0; draw < blocks.random && draw < others.size(); ++draw) {
            if (blocks.random < others.size()) {
                const PhiloxKey key{{static_cast<uint32_t>(blocks.seed), static_cast<uint32_t>(blocks.seed >> 32)}};
                const uint64_t u = philox({{draw, row, h, 0}}, key).words[0];
                std::swap(others[draw], others[draw + (u * (others.size() - draw) >> 32)]);
            }
            shown_[others[draw]] = true;
        }
    }

    uint32_t keys_;
    bool all_;
    std::vector<bool> shown_;
};

} // namespace vkattn::oracle
