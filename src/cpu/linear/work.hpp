// The structures that the parts of linear attention on the CPU share: one call cut into units of work, and the
// scratch memory that a thread computes a unit in.
//
// A unit is the whole scan of a state head for a run of value dims: a column of the state needs no other column,
// whatever the rule. Its part of the state is in scratch memory from the first token to the last. Keys, features
// and the normaliser are the same for all runs of a head, and each computes them anew.
#pragma once

#include "cpu/operands.hpp"
#include "cpu/workspace.hpp"
#include "problem/linear/linear.hpp"

#include <algorithm>

namespace vkattn {

// Tokens of a chunk. Small chunks lose little here: what grows with a chunk, the pairs of its tokens, is computed
// beside products with the state that every token has anyway. The number decides the result's last bits.
inline constexpr uint32_t linearChunk = 16;
// Value dims of a unit: many, whose units map keys and queries once for all; few, where threads would go without a unit.
inline constexpr uint32_t manyLinearColumns = 128, fewLinearColumns = 64;
// From so many keys on AUTO takes chunks.
inline constexpr uint32_t fewestChunkedKeys = 8;

struct LinearCall {
    const LinearAttention &a;
    const Operands &operands;
    bool chunked;
    uint32_t columns; // value dims of a unit, at most
    // z and M of stateIn, [batch][stateHeads][2][stateRows]: a unit that stores them in the same memory must not be
    // read by another one. NULL: there are none.
    const float *normalizers;
};

struct LinearUnit {
    uint32_t b, stateHead, firstColumn, columns;
};

// Where tokens are mapped, in floats from the start of a thread's scratch memory: rows of features are `width` apart.
struct FeatureScratch {
    size_t width, omegaWidth;
    size_t raw, omega; // [token][dim], [dim][feature]

    // For so many tokens at a time.
    FeatureScratch(const LinearAttention &a, uint32_t tokens, ScratchParts &parts)
        : width(wholeLines(a.stateRows)), omegaWidth(wholeLines(a.randomFeatures())) {
        parts.place(raw, tokens * wholeLines(a.keyDim));
        parts.place(omega, omegaWidth * a.keyDim);
    }
};

// Scratch memory of one thread, in floats from its start. Rows of keys, queries and features are `width` apart, and
// those of values `stride`. Rows of the state are an odd number of cache lines apart: a product takes some columns of all rows, which
// an even number would put on half of a cache's sets.
struct LinearScratch : FeatureScratch {
    size_t stride, statePitch;
    size_t state, maxima;                           // [row][column], [row]
    size_t keys, queries, keysOfState, keysToEnd;   // [token][row]
    size_t running, decays, factors, weighted;      // [token][row] for the first two, [row]
    size_t values, written, results;                // [token][column]
    size_t pairsOfKeys, pairsOfQueries, pairDecays; // [token][token]
    size_t keysAcross;                              // [row][token]
    size_t total;

    LinearScratch(const LinearAttention &a, uint32_t columns) : LinearScratch(a, columns, ScratchParts()) {}

  private:
    LinearScratch(const LinearAttention &a, uint32_t columns, ScratchParts parts) : FeatureScratch(a, linearChunk, parts) {
        const auto place = [&](size_t &at, size_t floats) { parts.place(at, floats); };
        stride = wholeLines(std::min(a.valueDim, columns) + (a.hasFeatures() ? 1 : 0));
        const size_t ofRows = linearChunk * width, ofColumns = linearChunk * stride, ofPairs = size_t{linearChunk} * linearChunk;
        statePitch = stride + (stride / wholeLines(1) % 2 ? 0 : wholeLines(1));
        place(state, a.stateRows * statePitch);
        place(maxima, width);
        for (size_t *each : {&keys, &queries, &keysOfState, &keysToEnd, &running, &decays}) place(*each, ofRows);
        place(factors, width);
        place(weighted, width);
        for (size_t *each : {&values, &written, &results}) place(*each, ofColumns);
        for (size_t *each : {&pairsOfKeys, &pairsOfQueries, &pairDecays}) place(*each, ofPairs);
        place(keysAcross, ofRows);
        total = parts.total();
    }
};

// The kernels of one target.
struct LinearKernels {
    const char *target; // Highway's name
    void (*scan)(const LinearCall &, const LinearUnit &, float *scratch);
};
// Returns the kernels of the best target that this processor has.
[[nodiscard]] const LinearKernels &linearKernels();

} // namespace vkattn
