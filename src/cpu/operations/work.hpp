// The structures that the parts of the operations on the CPU share: one call cut into units of
// work, and the scratch memory that a thread computes a unit in.
#pragma once

#include "cpu/operands.hpp"
#include "cpu/workspace.hpp"

namespace vkattn {

// How a projection is cut. A unit is `rows` x `columns` of Y in one batch entry and group.
struct ProjectionTiling {
    bool fewRows = false; // dims of `in` in lanes, W read where it lies
    uint32_t rows = 0, columns = 0;
    uint64_t rowBlocks = 0, columnBlocks = 0;
};

struct OperationCall {
    const Operation &o;
    const Operands &operands;
    ProjectionTiling tiling;
    uint64_t rowsPerUnit = 0; // other operations
    // The gradient of a norm, where it sums over rows: three numbers a row, which the first phase
    // writes and the second one reads.
    float *rowFacts = nullptr;

    [[nodiscard]] const unsigned char *read(vkattn_role role) const { return operands.data[role]; }
    [[nodiscard]] unsigned char *write(vkattn_role role) const { return operands.data[role]; }
    // Returns the inner dims of a projection that count in a batch entry.
    [[nodiscard]] uint32_t innerOf(uint32_t b) const {
        return o.has(VKATTN_KEY_LENGTHS) ? std::min(operands.word(VKATTN_KEY_LENGTHS, b), o.inner) : o.inner;
    }
    // Returns where the tokens of a batch entry begin, by the rule of vkattn/operations.h.
    [[nodiscard]] uint32_t start(uint32_t b) const { return o.has(VKATTN_STARTS) ? operands.word(VKATTN_STARTS, b) : o.start; }
};

// Where a token of append goes, by the rule of vkattn/operations.h.
struct TokenPlace {
    bool written = false;
    uint32_t entry = 0, row = 0; // of Y

    TokenPlace(const OperationCall &call, uint32_t b, uint32_t t) {
        const Operation &o = call.o;
        const uint64_t start = call.start(b), capacity = o.cacheRows;
        uint64_t position = start + t;
        if (capacity == 0) return;
        if (o.ring()) {
            if (start >> 31 || o.rows - t > capacity) return;
            position %= capacity;
        }
        if (position >= capacity) return;
        entry = b, row = static_cast<uint32_t>(position);
        if (o.poolPages) {
            entry = call.operands.word(VKATTN_PAGE_TABLE, uint64_t{b} * o.tablePages + row / o.pageTokens);
            row %= o.pageTokens;
            if (entry >= o.poolPages) return;
        }
        written = true;
    }
};

// The part of `in` that is summed before the sum is added to earlier parts. The number decides the
// result's last bits.
inline constexpr uint32_t partOfIn = 256;
// More rows are computed in tiles.
inline constexpr uint32_t mostProjectedFewRows = 8;

// Scratch memory of a projection's unit, in floats from its start.
struct ProjectionScratch {
    size_t x, xStride, w, sums, sumStride, bias, row, staging, total;
    ProjectionScratch(const Operation &o, const ProjectionTiling &tiling) {
        const size_t columns = wholeLines(tiling.columns), part = tiling.fewRows ? o.inner : partOfIn;
        ScratchParts parts;
        const auto place = [&](size_t &at, size_t floats) { parts.place(at, floats); };
        xStride = wholeLines(part) + 16; // rows at a power of two would share sets of a cache
        sumStride = columns;
        place(x, tiling.rows * xStride);
        place(w, tiling.fewRows ? 0 : columns * part);
        place(sums, tiling.rows * sumStride);
        place(bias, columns);
        place(row, columns);
        place(staging, tiling.fewRows ? 0 : 4 * part);
        total = parts.total();
    }
};

// Returns the floats that a unit of another operation needs.
[[nodiscard]] inline size_t rowScratch(const Operation &o) {
    const size_t row = wholeLines(o.inner);
    if (o.kind == VKATTN_KEEP) return 0;
    if (o.kind == VKATTN_NORM || o.kind == VKATTN_NORM_GRADIENT) return 4 * row;
    if (o.kind == VKATTN_DROP) return 2 * row;
    if (o.kind == VKATTN_MERGE) return 2 * row + wholeLines(o.parts);
    return o.kind == VKATTN_ROTARY || o.kind == VKATTN_MEAN ? 3 * row : row;
}

// The columns of a unit of the second phase of a norm's gradient.
inline constexpr uint32_t gradientColumns = 64;

// The kernels of one target. Each computes a unit, whose number is below `units` of run.cpp.
struct OperationKernels {
    const char *target;    // Highway's name
    uint32_t panelColumns; // columns of Y that fill the vectors of a tile; units have whole panels
    void (*project)(const OperationCall &, uint64_t unit, float *scratch);
    void (*normalize)(const OperationCall &, uint64_t unit, float *scratch);
    void (*rotate)(const OperationCall &, uint64_t unit, float *scratch);
    void (*append)(const OperationCall &, uint64_t unit, float *scratch);
    void (*advance)(const OperationCall &, uint64_t unit, float *scratch);
    void (*average)(const OperationCall &, uint64_t unit, float *scratch);
    void (*merge)(const OperationCall &, uint64_t unit, float *scratch);
    void (*hadamard)(const OperationCall &, uint64_t unit, float *scratch);
    void (*keep)(const OperationCall &, uint64_t unit, float *scratch);
    void (*drop)(const OperationCall &, uint64_t unit, float *scratch);
    void (*differentiate)(const OperationCall &, uint64_t unit, float *scratch);
    void (*sumGradients)(const OperationCall &, uint64_t unit, float *scratch);
};
// Returns the kernels of the best target that this processor has.
[[nodiscard]] const OperationKernels &operationKernels();

} // namespace vkattn
