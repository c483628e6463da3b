// The structures that the parts of the CPU fallback share: one call cut into units of work, and the
// scratch memory that a thread computes a unit in.
//
// A unit is rows of one key/value head, or a patch of a grid (below): `rows` of the queries x group size rows that share its K
// and V. Row r is query r / group of query head r % group of the group, so that neighbouring rows
// see nearly the same keys. Few rows with many keys are split along the keys too; the last thread
// to finish a split joins the splits, in their order.
#pragma once

#include "cpu/rules.hpp"
#include "cpu/workspace.hpp"

#include <atomic>

namespace vkattn {

// The registers of a target, as its kernels use them (cpu/forward/kernels.cpp).
struct KernelShape {
    const char *target; // Highway's name
    uint32_t lanes;     // floats in a vector
    uint32_t panelRows; // query rows that the tile kernel keeps in the lanes of two vectors
    // At most this many rows that see the same keys are computed with dims in lanes; 0: no rows.
    uint32_t mostFewRows;
};

struct Tiling {
    uint32_t unitRows = 0; // most rows of a unit: whole panels
    // Keys between two looks at the running maximum. The number decides the result's last bits.
    uint32_t tileKeys = 0;
    uint32_t splitKeys = 0; // whole tiles; the number decides the last bits too
};

// Keys of a block, where dims are in lanes: their values of 128 dims lie in a first-level cache.
inline constexpr uint32_t fewRowsKeys = 64;

// Queries of one head that are a rectangle of a grid and lie in one panel. What their neighbourhoods have in
// common is more than of as many queries in a row.
struct GridPatch {
    uint32_t plane = 0, row = 0, column = 0;
    uint32_t rows = 0, columns = 0; // 0: there is no patch
    uint32_t headOfGroup = 0;
};

struct SequencePlan {
    Sequence s;
    uint64_t unitsBefore = 0;
    uint64_t rowBlocks = 0;
    uint32_t rowsPerBlock = 0, splits = 0;
    uint32_t patchRows = 0, patchColumns = 0; // of units that are patches; 0: they are rows
    // Where splits > 1: floats before this sequence, and one counter for each key/value head.
    uint64_t partialsBefore = 0, countersBefore = 0;
    [[nodiscard]] uint64_t units(uint32_t kvHeads) const { return kvHeads * rowBlocks * splits; }
};

struct Call {
    const Problem &p;
    const Operands &operands;
    Tiling tiling;
    const SequencePlan *sequences = nullptr;
    uint32_t sequenceCount = 0;
    float *partials = nullptr;
    std::atomic<uint32_t> *counters = nullptr; // the splits that are finished
    BlockBits blocks{};                        // with blocks of pairs

    // The floats of a row: output, maximum, sum, and whether the row saw a key.
    [[nodiscard]] size_t partialFloats() const { return p.valueDim + size_t{3}; }
};

struct Unit {
    const Sequence *s;
    uint32_t b, kvHead, rows;
    uint64_t firstRow;
    uint32_t keyBegin, keyEnd; // the keys of the split
    // [rows][partialFloats]; NULL: the unit has all keys and writes the outputs
    float *partial;
    GridPatch patch;
};

// Packed rows of K and V lie an odd number of cache lines apart. A power of two would put the rows
// of a tile on few of a cache's sets.
[[nodiscard]] inline size_t packedStride(size_t dims) {
    return (dims + 15) / 16 / 2 * 32 + 16;
}

// Scratch memory of one thread, in floats from its start; every part begins on a boundary of 16.
struct ScratchLayout {
    size_t query, out, scores, pairs, keys, values, finite, stats, reaches, row, total;
};
// The statistics of a row: maximum, sum, whether a key was seen, factor of the last rescaling.
inline constexpr size_t statsPerRow = 4;

[[nodiscard]] inline ScratchLayout scratchLayout(const Problem &p, const Tiling &tiling, const KernelShape &shape) {
    ScratchLayout at{};
    ScratchParts parts;
    const auto place = [&](size_t &part, size_t floats) { parts.place(part, floats); };
    // A block of keys, where dims are in lanes, is copied where it lies in two segments.
    const size_t rows = tiling.unitRows, tile = p.segmented() ? std::max(tiling.tileKeys, fewRowsKeys) : tiling.tileKeys;
    place(at.query, rows * p.headDim);
    place(at.out, rows * p.valueDim);
    place(at.scores, tile * shape.panelRows);
    place(at.pairs, tile * shape.panelRows);
    // Before there are keys, four rows of queries use this room.
    place(at.keys, std::max<size_t>(tile, shape.lanes) * packedStride(p.headDim));
    place(at.values, tile * packedStride(p.valueDim));
    place(at.finite, tile * p.valueDim);
    place(at.stats, statsPerRow * rows);
    place(at.reaches, 4 * rows / shape.lanes);
    place(at.row, 4 * size_t{p.valueDim}); // rows are transposed four at a time
    at.total = parts.total();
    return at;
}

// The kernels of one target.
struct Kernels {
    KernelShape shape;
    void (*attend)(const Call &, const Unit &, float *scratch);
    // Returns whether attend() computes the sequence with dims in lanes.
    bool (*takesFewRows)(const Call &, const Sequence &);
    // Joins the splits of all rows that share a key/value head.
    void (*joinSplits)(const Call &, const SequencePlan &, uint32_t kvHead, float *scratch);
    // exp2 for its test: count is a whole number of vectors.
    void (*exp2)(const float *x, float *y, size_t count);
};
// Returns the kernels of the best target that this processor has.
[[nodiscard]] const Kernels &kernels();

} // namespace vkattn
