// The structures that the parts of the backward pass on the CPU share: one call cut into units of
// work, and the scratch memory that a thread computes a unit in.
//
// A unit of the first pass is a chunk of the rows of one key head, with all keys that these rows see.
// A unit computes the scores once for all five products. Its dQ is its own. What the chunks of a head
// add to dK and dV is added tile by tile, in the order of the chunks: a unit waits at a tile until the
// chunk before has added. So no sum depends on the number of threads, and nothing is computed twice.
// A unit of the second pass is a box of dBias, with all pairs that the bias broadcasts to.
#pragma once

#include "cpu/attention.hpp"
#include "cpu/pool.hpp"
#include "cpu/workspace.hpp"
#include "problem/gradient.hpp"

#include <atomic>

namespace vkattn {

struct GradientTiling {
    uint32_t chunkRows = 0; // most rows of a chunk: whole panels
    uint32_t tileKeys = 0;
};

// What the rows of one head in one chunk add to the sums over pairs.
struct ChunkSums {
    double slopes, sinks, scale, softcap;
};

// One sequence of a call. A head is a sequence and a key head: its number is b * kvHeads + kvHead.
struct GradientSequence {
    Sequence s;
    uint32_t chunks = 0, tiles = 0;
    uint64_t turnsBefore = 0; // tiles of the heads before
    uint64_t sumsBefore = 0;  // ChunkSums of the heads before
    uint64_t rowsBefore = 0;
};

struct GradientCall {
    const Gradient &g;
    Call forward; // what cpu/ has for the forward pass asks for its problem and operands
    GradientTiling tiling;
    const GradientSequence *sequences = nullptr;
    uint32_t sequenceCount = 0;
    // For each tile of each head, the chunks that have added to the tile; and whether a head is done.
    std::atomic<uint32_t> *turns = nullptr, *finished = nullptr;
    ChunkSums *sums = nullptr;
    float *rowD = nullptr;         // D_i of all rows; NULL: the second pass computes D_i itself
    float *accumulators = nullptr; // dK and dV of `slots` heads
    uint64_t slots = 0, slotFloats = 0;
    std::atomic<uint32_t> *nonfinite = nullptr;

    [[nodiscard]] const Operands &operands() const { return forward.operands; }
    [[nodiscard]] bool wants(vkattn_role role) const { return g.uses(role); }
    [[nodiscard]] bool wantsKeys() const { return wants(VKATTN_D_K) || wants(VKATTN_D_V); }
    [[nodiscard]] bool wantsSums() const {
        return wants(VKATTN_D_SLOPES) || wants(VKATTN_D_SINKS) || wants(VKATTN_D_SCALE) || wants(VKATTN_D_SOFTCAP);
    }
};

// Scratch memory of one thread, in floats from its start; every part begins on a boundary of 16.
struct GradientScratch {
    // The rows of a chunk: q and dOut and dQ with rows in lanes, q and dOut with dims in lanes.
    size_t query, dOut, dQ, queryRows, dOutRows;
    size_t keys, values, finite; // a tile
    size_t weights, gradients;   // stacked panels and a tile: [panel][key][row]
    size_t pairs, kept, given;   // a panel and a tile: [key][row]
    size_t stats, special, row, box, total;

    // The numbers of a row: maximum, 1 / sum, dLse - D, whether a key was seen, the sums of dSlopes,
    // dScale and dSoftcap, D, dLse, exp(sink - maximum) / sum, and ones.
    enum Stat { maximum, inverseSum, offset, seen, slopes, scale, softcap, d, dLse, sink, ones, statsPerRow };

    // Panels whose pairs wait for the sums of keys.
    static constexpr size_t stackedPanels = 8;

    GradientScratch(const Gradient &g, const GradientTiling &tiling, uint32_t panelRows) {
        const Problem &p = g.forward;
        ScratchParts parts;
        const auto place = [&](size_t &part, size_t floats) { parts.place(part, floats); };
        const size_t rows = tiling.chunkRows, tile = tiling.tileKeys;
        place(query, rows * p.headDim);
        place(dOut, rows * p.valueDim);
        place(dQ, rows * p.headDim);
        place(queryRows, rows * wholeLines(p.headDim));
        place(dOutRows, rows * wholeLines(p.valueDim));
        place(keys, tile * packedStride(p.headDim));
        place(values, tile * packedStride(p.valueDim));
        place(finite, tile * p.headDim);
        place(weights, stackedPanels * tile * panelRows);
        place(gradients, stackedPanels * tile * panelRows);
        place(pairs, tile * panelRows);
        place(kept, tile * panelRows);
        place(given, tile * panelRows);
        place(stats, statsPerRow * rows);
        place(special, rows);
        place(row, 4 * size_t{std::max(p.headDim, p.valueDim)});
        place(box, g.uses(VKATTN_D_BIAS) ? 2 * rows * tile : 0); // of doubles
        total = parts.total();
    }
};

// How dBias is cut. An extent of 1 is one block with all that it broadcasts to.
struct BiasBlocks {
    uint64_t rows, keys;
    BiasBlocks(const Tensor &t, const GradientTiling &tiling)
        : rows(t.extent[2] == 1 ? 1 : (t.extent[2] + uint64_t{tiling.chunkRows} - 1) / tiling.chunkRows),
          keys(t.extent[3] == 1 ? 1 : (t.extent[3] + uint64_t{tiling.tileKeys} - 1) / tiling.tileKeys) {}
    [[nodiscard]] uint64_t units(const Tensor &t) const { return uint64_t{t.extent[0]} * t.extent[1] * rows * keys; }
};

// The kernels of one target.
struct GradientKernels {
    uint32_t panelRows;
    // The rows of chunk `chunk` of a key head.
    void (*rows)(const GradientCall &, uint32_t b, uint32_t kvHead, uint32_t chunk, float *scratch);
    void (*bias)(const GradientCall &, uint64_t unit, float *scratch);
};
// Returns the kernels of the best target that this processor has.
[[nodiscard]] const GradientKernels &gradientKernels();

} // namespace vkattn
