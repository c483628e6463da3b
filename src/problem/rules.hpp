// Rules of visibility beside causal, window and masks: dilated windows with global tokens, grids, blocks.
// Their canonical form; shaders/attention/rule.glsl, cpu/rules.hpp and the oracle say what they show.
#pragma once

#include "vkattn/problem.h"

#include <cstdint>

namespace vkattn {

struct Problem;

// A window side this wide hides nothing, whatever the token counts.
constexpr int32_t openWindow = 1 << 30;
constexpr uint32_t maxDilation = 1u << 20;
constexpr uint32_t maxRandomBlocks = 64;

// Words that hold so many bits.
[[nodiscard]] constexpr uint32_t bitWords(uint32_t bits) {
    return bits / 32 + (bits % 32 != 0);
}

struct Rules {
    // The window in steps of the dilation, which is at least 1: the most that a head may have.
    int32_t windowLeft = openWindow, windowRight = openWindow;
    uint32_t dilation = 1;
    bool global = false;    // global tokens are given
    vkattn_grid grid{};     // extents and sizes at least 1 where there is one
    vkattn_blocks blocks{}; // keys, batches, heads and entries as they count
    uint32_t blockRows = 0, blockColumns = 0;

    // Returns whether the window takes more than a range of keys.
    [[nodiscard]] constexpr bool local() const { return dilation > 1 || global; }
    // Returns whether rules show runs of keys, and not all keys within a row's reach.
    [[nodiscard]] constexpr bool showRuns() const { return local() || grid.rule != VKATTN_GRID_NONE || blocks.kind != VKATTN_BLOCKS_NONE; }
    // Planes of blocks: one, or one for each batch entry and head that has blocks of its own.
    [[nodiscard]] constexpr uint64_t blockPlanes() const { return uint64_t{blocks.batches} * blocks.heads; }
    [[nodiscard]] constexpr bool hasBlockArray(vkattn_role role) const {
        switch (role) {
        case VKATTN_BLOCK_MASK:
            return blocks.kind == VKATTN_BLOCKS_MASK;
        case VKATTN_BLOCK_ROWS:
        case VKATTN_BLOCK_COLUMNS:
            return blocks.kind == VKATTN_BLOCKS_LISTS;
        case VKATTN_BLOCK_COUNTS:
        case VKATTN_BLOCK_INDICES:
            return blocks.kind == VKATTN_BLOCKS_INDICES;
        default:
            return blocks.kind == VKATTN_BLOCKS_INDICES && blocks.full != 0;
        }
    }
    // The outermost axis of the grid that has more than one token: a query sees a range of its coordinates.
    // `tokens`: how many tokens share a coordinate.
    struct Axis {
        uint32_t axis, tokens;
    };
    [[nodiscard]] constexpr Axis outerAxis() const {
        if (grid.extent[0] > 1) return {0, grid.extent[1] * grid.extent[2]};
        return grid.extent[1] > 1 ? Axis{1, grid.extent[2]} : Axis{2, 1};
    }
};

// Returns the elements of an array of blocks.
[[nodiscard]] uint64_t blockArrayLength(const Rules &rules, vkattn_role role);

// Checks the rules of a problem whose extents are known, and sets out.rules, out.left and out.right.
[[nodiscard]] vkattn_result makeRules(const vkattn_problem &description, Problem &out, vkattn_diagnostic *why);
// The same of blocks alone: sets what out.rules has of blocks.
[[nodiscard]] vkattn_result makeBlocks(const vkattn_blocks &description, Problem &out, vkattn_diagnostic *why);

} // namespace vkattn
