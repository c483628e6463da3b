// The description of an attention, for targets of operations on attention.
#pragma once

#include "computed.hpp"
#include "layouts.hpp"
#include "plans.hpp"

namespace vkattn::test {

// The extents of an attention, in the order in which bytes choose them.
struct AttentionShape {
    uint32_t batch, kvHeads, heads, queries, keys, dim;
    uint32_t sequences = 0, entries, rows; // of a ragged batch, otherwise 0; entries of bias and masks; of q

    explicit AttentionShape(Bytes &bytes) {
        batch = entries = rows = 1 + bytes.below(2);
        kvHeads = 1 + bytes.below(2);
        heads = kvHeads * (1 + bytes.below(3));
        queries = number(bytes), keys = number(bytes), dim = number(bytes);
    }
    // Bit 0 of the options.
    void chooseSequences(Bytes &bytes, uint32_t options) {
        if (options & 1) sequences = entries = 1 + bytes.below(3), rows = 1;
    }
};

// What pairs have: the options' bits 1 to 7; `bitMask` as the target's own bit says.
inline void describePairs(Bytes &bytes, const AttentionShape &shape, uint32_t options, bool bitMask, vkattn_problem &p) {
    const auto one = [&](uint32_t extent) { return bytes.flag() ? extent : 1; };
    const uint32_t entries = shape.entries, heads = shape.heads, queries = shape.queries, keys = shape.keys;
    if (options & 2) {
        const uint32_t extents[] = {one(entries), one(heads), one(queries), one(keys)};
        p.bias = layout(bytes, extents, dtype(bytes));
    }
    if (options & 4) p.mask = layout(bytes, {one(entries), one(heads), one(queries), one(keys)}, VKATTN_BOOL8);
    if (bitMask) p.bitMask = layout(bytes, {one(entries), one(heads), one(queries), keys / 32 + (keys % 32 != 0)}, VKATTN_BITS32);
    p.scale = p.flags & VKATTN_SCALE ? bytes.raw<float>() : 0;
    p.softcap = options & 8 ? 2.5f : 0;
    if (p.flags & VKATTN_WINDOW)
        p.windowLeft = static_cast<int32_t>(bytes.below(9)) - 1, p.windowRight = static_cast<int32_t>(bytes.below(9)) - 1;
    p.presentRoles = (options & 16 ? VKATTN_PRESENT(VKATTN_SINKS) : 0) | (options & 32 ? VKATTN_PRESENT(VKATTN_ALIBI_SLOPES) : 0) |
                     (options & 64 ? VKATTN_PRESENT(VKATTN_DOC_IDS_Q) | VKATTN_PRESENT(VKATTN_DOC_IDS_K) : 0);
    if (shape.sequences) p.presentRoles |= VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    if (!shape.sequences && options & 128) p.presentRoles |= VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    p.sequences = shape.sequences;
}

// Returns the multiply-adds of an attention with so many dims.
inline double workOf(const vkattn_problem &p, double dims) {
    return static_cast<double>(p.q.extent[0]) * p.q.extent[1] * p.q.extent[2] * p.k.extent[2] * dims;
}

// Of a description with an `attention` and an `operation` on it: validated, planned, and computed where that is small.
template <class Description> void planAndCompute(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const Description d(bytes);
    const vkattn_result valid = validate(d.operation);
    planOperation(d.operation, valid, bytes, number);
    const vkattn_problem &p = d.attention;
    if (valid == VKATTN_OK && workOf(p, p.q.extent[3]) <= 3e5) compute(d.operation, bytes, true);
}

} // namespace vkattn::test
