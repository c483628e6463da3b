// Tiles of the flash kernels over the queries of a grid (vkattn_grid), whose neighbourhoods are
// boxes of keys. A tile may be a patch of the grid: what its rows see is then more of the same than
// of as many queries in a row.
#pragma once

#include "core/plan/chunks.hpp"
#include "core/plan/operands.hpp"

namespace vkattn {

// Sets the patch that a tile of this shape is, or that it is none: where positions are no places of
// the grid, and where patches would visit more.
void choosePatch(const Problem &p, const Caps &caps, FlashShape &shape);
// The most keys that a tile visits, where grids alone say what it skips.
[[nodiscard]] uint64_t keysOfGridTile(const Problem &p, const FlashShape &shape);
// Whether rules are grids alone.
[[nodiscard]] bool gridAlone(const Problem &p);
// Takes fewer queries a chunk where that makes chunks whole rows of patches. Returns false where
// the plan must do without the patch: where rows are those of partial results, or no chunk has
// whole patches.
[[nodiscard]] bool keepsPatch(const Problem &p, ChunkShape &chunk, const FlashShape &shape);

// Fewer keys a step of a tile in the lanes of a subgroup, where a step would have keys of two rows
// of the grid.
void takeRunsOfGrid(const Problem &p, FlashTile &tile);
// Workgroups that a chunk's rows take.
[[nodiscard]] uint32_t tilesOfRows(const Plan &plan, const Chunk &c);
// Whether every stretch of keys that a tile visits, in whole steps, lies in one row of the grid
// (formBoxRuns).
[[nodiscard]] bool namesRunsOfGrid(const Plan &plan);

} // namespace vkattn
