// Descriptions of lists of visible blocks: vkattnValidateOperation, vkattnOperationBytes and vkattnOperandUses
// with anything; the plan for any device, whose dispatches stay within its limits; and what is valid and small
// computed on the CPU, word for word what the oracle has, whatever the operands hold.
#include "fuzz/shared/attention.hpp"
#include "vkattn/visible_blocks.h"

using namespace vkattn::test;

namespace {

struct Description {
    vkattn_problem attention{};
    vkattn_visible_blocks blocks{};
    vkattn_operation operation{};

    explicit Description(Bytes &bytes) {
        vkattn_problem &p = attention;
        vkattn_visible_blocks &v = blocks;
        operation.kind = VKATTN_VISIBLE_BLOCKS;
        const uint32_t head = bytes.raw<uint8_t>(), options = bytes.raw<uint16_t>();
        operation.of.visibleBlocks = head == 255 ? nullptr : &v;
        v.structSize = head == 254 ? bytes.raw<uint32_t>() : sizeof v;
        v.attention = head == 253 ? nullptr : &p;
        if (head == 252) v.flags = bytes.raw<uint32_t>();
        p.structSize = head == 251 ? bytes.raw<uint32_t>() : sizeof p;
        p.flags = bytes.raw<uint8_t>() & 31u;
        AttentionShape shape(bytes);
        shape.chooseSequences(bytes, options);
        const auto [batch, kvHeads, heads, queries, keys, dim, sequences, entries, rows] = shape;
        const auto make = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, dtype(bytes)); };
        p.q = make({rows, heads, queries, dim});
        p.k = make({rows, kvHeads, keys, dim});
        describePairs(bytes, shape, options, options & 512, p);
        if (p.flags & VKATTN_WINDOW) p.dilation = bytes.below(4);
        if (options & 1024) p.grid = {VKATTN_GRID_CUT, {1, 1, keys}, {1, 1, 1 + 2 * bytes.below(3)}, {}};
        if (options & 2048) p.presentRoles |= VKATTN_PRESENT(VKATTN_PREFIX_LENGTHS);
        if (options & 4096) p.presentRoles |= VKATTN_PRESENT(VKATTN_GLOBAL_TOKENS);
        if (options & 8192) p.blocks.kind = VKATTN_BLOCKS_MASK; // refused
        vkattn_blocks &b = v.blocks;
        b.kind = head == 250 ? static_cast<vkattn_block_kind>(bytes.below(6)) : VKATTN_BLOCKS_INDICES;
        b.queries = head == 249 ? number(bytes) : 1 + bytes.below(40);
        b.keys = head == 249 ? number(bytes) : 1 + bytes.below(40);
        b.batches = bytes.flag() ? entries : bytes.below(3);
        b.heads = bytes.flag() ? heads : bytes.below(3);
        b.full = bytes.below(head == 248 ? 4 : 2);
        if (head == 247) b.entries = number(bytes), b.random = bytes.below(3), b.seed = bytes.below(3);
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    planAndCompute<Description>(data, size);
    return 0;
}
