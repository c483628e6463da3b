#include "core/kernels/grid_tiles.hpp"

#include "core/plan/tuning/table.hpp"

namespace vkattn {
namespace {

// Coordinates of an axis that the boxes of `count` neighbours have together, at most.
uint64_t coordinates(const vkattn_grid &grid, uint32_t axis, uint64_t count) {
    const uint64_t beyond = grid.size[axis] - 1ull;
    return std::min<uint64_t>(grid.extent[axis], count + (grid.rule == VKATTN_GRID_WINDOWS ? 2 : 1) * beyond);
}

// Rows of the grid that the boxes of a tile have: what it visits are runs of keys in these.
uint64_t rowsOfGridTile(const Problem &p, const FlashShape &shape) {
    const vkattn_grid &grid = p.rules.grid;
    if (shape.patchColumns) return coordinates(grid, 0, 1) * coordinates(grid, 1, shape.patchRows);
    const uint64_t tile = shape.tile.rows(), columns = grid.extent[2], ofPlane = grid.extent[1] * columns;
    if (grid.extent[0] == 1) return coordinates(grid, 1, tile / columns + 2);
    // A tile that has queries of two planes visits all rows of what it visits of any.
    return coordinates(grid, 0, tile / ofPlane + 2) * grid.extent[1];
}

} // namespace

bool gridAlone(const Problem &p) {
    const Rules &rules = p.rules;
    return rules.grid.rule != VKATTN_GRID_NONE && !rules.local() && rules.blocks.kind == VKATTN_BLOCKS_NONE;
}

void choosePatch(const Problem &p, const Caps &caps, FlashShape &shape) {
    shape.patchRows = shape.patchColumns = 0;
    const vkattn_grid &grid = p.rules.grid;
    if (grid.rule == VKATTN_GRID_NONE || p.ragged()) return;
    const uint32_t planes = grid.extent[0], rows = grid.extent[1], columns = grid.extent[2];
    const bool placed = !p.hasOffsets() && (p.topLeft || (p.queryTokens == p.keyTokens && !p.has(VKATTN_KEY_LENGTHS)));
    if (!placed || uint64_t{planes} * rows * columns != p.queryTokens || rows == 1) return;

    constexpr uint32_t most = 128; // eight bits of the table's word (lib/table.h)
    const uint32_t tile = shape.tile.rows();
    uint32_t across = 1; // about as wide as high
    while (across * across < tile && tile % (2 * across) == 0 && across < most && across < columns) across *= 2;
    const uint32_t down = tile / across;
    const uint64_t patches = uint64_t{planes} * ceilDiv(rows, down) * ceilDiv(columns, across);
    if (across == 1 || down == 1 || down > most || patches > caps.maxWorkgroupCount[0]) return;
    // Keys that a tile visits where it lies in one row, and rows that it computes of those that are
    // there.
    const uint64_t inRow = coordinates(grid, 1, 1) * coordinates(grid, 2, tile);
    const uint64_t inPatch = coordinates(grid, 1, down) * coordinates(grid, 2, across);
    if (inPatch * patches * tile >= inRow * p.queryTokens) return;
    shape.patchRows = down;
    shape.patchColumns = across;
}

uint64_t keysOfGridTile(const Problem &p, const FlashShape &shape) {
    const vkattn_grid &grid = p.rules.grid;
    const uint64_t across = shape.patchColumns ? coordinates(grid, 2, shape.patchColumns) : grid.extent[2];
    return rowsOfGridTile(p, shape) * across;
}

bool keepsPatch(const Problem &p, ChunkShape &chunk, const FlashShape &shape) {
    if (!shape.patchColumns) return true;
    const vkattn_grid &grid = p.rules.grid;
    // A chunk has whole planes, or whole rows of patches of the only one.
    const uint64_t unit = uint64_t{grid.extent[0] > 1 ? grid.extent[1] : shape.patchRows} * grid.extent[2];
    const bool whole = chunk.queries == p.queryTokens;
    if (shape.packed != 1 || shape.parts != 0 || (!whole && chunk.queries < unit)) return false;
    if (!whole) chunk.queries -= static_cast<uint32_t>(chunk.queries % unit);
    return true;
}

void takeRunsOfGrid(const Problem &p, FlashTile &tile) {
    // The bits of deterministic results depend on the keys of a step, and not on how keys are skipped.
    if (!gridAlone(p) || p.deterministic || tile.source != interop::sourceShuffled) return;
    while (p.rules.grid.extent[2] % tile.step() != 0) tile.keysPerLane /= 2;
}

uint32_t tilesOfRows(const Plan &plan, const Chunk &c) {
    const FlashShape &shape = plan.flash;
    if (!shape.patchColumns) return divideUp(c.queries * shape.packed, shape.tile.rows());
    const vkattn_grid &grid = plan.problem.rules.grid;
    const uint32_t columns = grid.extent[2], rows = std::min(grid.extent[1], c.queries / columns);
    return std::max(c.queries / (grid.extent[1] * columns), 1u) * divideUp(rows, shape.patchRows) * divideUp(columns, shape.patchColumns);
}

bool namesRunsOfGrid(const Plan &plan) {
    const FlashShape &shape = plan.flash;
    return gridAlone(plan.problem) && plan.problem.rules.grid.extent[2] % shape.tile.step() == 0 && shape.packed == 1 &&
           rowsOfGridTile(plan.problem, shape) <= shortStretches(plan.problem);
}

} // namespace vkattn
