// Tile shapes by device class: one table, one row per measured fact.
#pragma once

#include "core/plan/caps.hpp"

#include <cstddef>
#include <cstdint>

namespace vkattn {

// A tile of lanesX x lanesY invocations, each owning perLaneX x perLaneY results. X runs along keys
// (scores) or value dims (values).
struct TileShape {
    uint32_t lanesX, lanesY, perLaneX, perLaneY;
    [[nodiscard]] constexpr uint32_t invocations() const { return lanesX * lanesY; }
    [[nodiscard]] constexpr uint32_t sizeX() const { return lanesX * perLaneX; }
    [[nodiscard]] constexpr uint32_t sizeY() const { return lanesY * perLaneY; }
};

enum TileClass : uint32_t {
    manyRows = 0,
    // scores, values: chunks with fewer than fewRowsBelow query rows; softmax: long rows
    fewRows = 1,
    narrow = 2, // values only: many rows, value dims up to narrowUpTo
    tileClassCount = 3
};

struct StagedTuning {
    TileShape scores[2], values[tileClassCount];
    uint32_t fewRowsBelow, narrowUpTo;
    uint32_t softmaxLanes[2];
    uint32_t pairLanes, pairKeysPerLane; // staged/pairs.comp; sinks: lanes only
    // The one workgroup that reads the sequences of a ragged batch.
    uint32_t sequenceLanes;
};

[[nodiscard]] const StagedTuning &stagedTuning(const Caps &caps);

// formInTurn or 0, interop.h: threads of a CPU device each compute neighbouring workgroups. A GPU takes
// workgroups one by one.
[[nodiscard]] uint32_t tileOrder(const Caps &caps);

// How a workgroup of the flash kernel is laid out (shaders/flash/lanes.comp), where the larger of
// head and value dim is minDim to maxDim.
struct FlashTile {
    uint32_t maxDim;
    uint32_t dimLanes, keyLanes, rowLanes; // invocations = product
    // Registers: rowsPerLane * keysPerLane scores, rowsPerLane * (head + value dims) / dimLanes
    // floats.
    uint32_t rowsPerLane, keysPerLane;
    // interop.h: sourceDirect, sourceShared, sourceShuffled; sourceMatrices: made from a MatrixTile
    uint32_t source;
    // sourceShared: keys in shared memory, a multiple of the step
    uint32_t tileKeys;
    uint32_t subgroups; // 1: uses subgroup operations
    // dimLanes > 1: 1: a lane's dims are neighbours; 0: runs of 16 bytes
    uint32_t wholeRuns;
    uint32_t rolledEdges; // 1: first and last loop not unrolled
    uint32_t minDim = 1;  // a tuning file's rows are for the dims that were measured
    // A row of a tuning file, which is not held to the compile limit.
    bool ofFile = false;
    // Row lanes that no row of the problem fills are left out.
    bool fewerRows = false;
    [[nodiscard]] constexpr uint32_t invocations() const { return dimLanes * keyLanes * rowLanes; }
    [[nodiscard]] constexpr uint32_t rows() const { return rowLanes * rowsPerLane; }
    [[nodiscard]] constexpr uint32_t step() const { return keyLanes * keysPerLane; }
    [[nodiscard]] constexpr uint32_t keyTile() const { return source == 1 ? tileKeys : step(); }
    // `valueDim`: 0 where V is a part of K.
    [[nodiscard]] constexpr uint32_t sharedWords(uint32_t headDim, uint32_t valueDim) const {
        return source == 1 ? tileKeys * (headDim + valueDim) : dimLanes > 1 && !subgroups ? invocations() * rowsPerLane * keysPerLane : 0;
    }
};

// The same of the kernels on matrix units (shaders/flash/tiles.glsl): the first row that fits the
// dims and the device's limits is taken.
struct MatrixTile {
    uint32_t maxDim;
    uint32_t subgroups; // of a workgroup
    uint32_t rowBlocks; // matrices of query rows of a subgroup
    uint32_t tileKeys;  // keys in shared memory at a time
    uint32_t minDim = 1;
};

// Which rows of the table and of a tuning file are about a kernel.
enum class TileList : uint32_t { flash, decode, matrix, none };

struct FlashTuning {
    static constexpr uint32_t maxFileTiles = 12, maxTiles = maxFileTiles + 8;
    // The first row that fits the dims and the compile limit is taken; maxDim 0 ends a list.
    FlashTile flash[maxTiles], decode[maxTiles];
    MatrixTile matrix[maxTiles]; // maxDim 0 ends the list
    // From so many rows on, queries x heads of a group, AUTO takes them; 0: never.
    uint32_t matrixRows;
    // Keys are split until a dispatch has so many workgroups, and of decode. targetLanes: invocations of
    // a workgroup that counts as one, larger ones count as several; 0: all count as one.
    uint32_t targetWorkgroups, decodeWorkgroups, targetLanes;
    // The longest split is a matter of accuracy, too: what is added to a sum of f32 that is large already is lost
    // where it is below half a unit. 65,536 keys in one chain of additions were 2.6e-4 off in a row of which one
    // key has nearly all, and 1.8e-4 are allowed (global tokens, head dim 64).
    uint32_t minSplitKeys, maxSplitKeys;
    uint32_t fixedSplitKeys; // with the deterministic flag
    uint32_t decodeRows;     // up to so many rows, queries x heads of a group, decode is chosen
    uint32_t combineLanes;
    // Measured by `vkattn tune`, for budgets in microseconds: millions of floating-point operations
    // (4 * dim a visible pair) a second.
    struct Rate {
        uint32_t minDim, maxDim, mflops;
    };
    // maxDim 0 ends a list
    Rate flashRates[maxFileTiles], decodeRates[maxFileTiles], matrixRates[maxFileTiles];
    // 0: not known
    [[nodiscard]] uint32_t rate(TileList list, uint32_t dim) const;
};

[[nodiscard]] FlashTuning flashTuning(const Caps &caps);
// Puts the rows of a tuning file (docs/tuning.md) before those of the table. INVALID_ARGUMENT with
// the line and what was expected.
[[nodiscard]] vkattn_result readTuning(const void *bytes, size_t size, FlashTuning &tuning, vkattn_diagnostic *why);

} // namespace vkattn
