#include "problem/visible_blocks.hpp"

#include "problem/scores_only.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <initializer_list>

namespace vkattn {
namespace {

// What is given for each batch entry, or for each head; NULL: nothing is, as far as anyone but the program
// knows.
const char *ofEachEntry(const Problem &p) {
    for (const vkattn_role role : {VKATTN_CU_SEQ_Q, VKATTN_KEY_LENGTHS, VKATTN_PREFIX_LENGTHS, VKATTN_QUERY_OFFSETS, VKATTN_KEY_OFFSETS,
                                   VKATTN_PAGE_TABLE, VKATTN_PAGE_INDPTR, VKATTN_GLOBAL_TOKENS, VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K})
        if (p.has(role)) return roleName(role);
    for (const vkattn_role role : {VKATTN_BIAS, VKATTN_MASK, VKATTN_BIT_MASK})
        if (p.tensor(role).extent[0] > 1) return roleName(role);
    return nullptr;
}
const char *ofEachHead(const Problem &p) {
    if (p.has(VKATTN_DILATIONS)) return roleName(VKATTN_DILATIONS);
    for (const vkattn_role role : {VKATTN_BIAS, VKATTN_MASK, VKATTN_BIT_MASK})
        if (p.tensor(role).extent[1] > 1) return roleName(role);
    return nullptr;
}

// One batch entry or head stands for all.
vkattn_result share(const char *what, const char *name, uint32_t blocks, uint32_t all, const char *each, vkattn_diagnostic *why) {
    if (blocks == all || !each) return VKATTN_OK;
    return fail(why, invalid, "blocks.%s is %u, and %s may differ between the %u %s of the attention; set blocks.%s to %u", name, blocks,
                each, all, what, name, all);
}

vkattn_result takeLists(const vkattn_blocks &given, VisibleBlocks &out, vkattn_diagnostic *why) {
    Problem &p = out.attention;
    if (given.kind != VKATTN_BLOCKS_INDICES)
        return fail(why, invalid, "blocks.kind is %d, expected VKATTN_BLOCKS_INDICES (%d): it is lists of indices that are written",
                    static_cast<int>(given.kind), static_cast<int>(VKATTN_BLOCKS_INDICES));
    if (p.rules.blocks.kind != VKATTN_BLOCKS_NONE)
        return fail(
            why, invalid,
            "attention.blocks.kind is %d, expected VKATTN_BLOCKS_NONE: the lists take the place of these blocks, and would show what "
            "they hide inside a block",
            static_cast<int>(p.rules.blocks.kind));
    const Rules own = p.rules;
    if (const auto r = makeBlocks(given, p, why)) return r;
    out.lists = p.rules;
    p.rules = own;
    const vkattn_blocks &blocks = out.lists.blocks;
    if (blocks.entries != out.lists.blockColumns)
        return fail(why, invalid, "blocks.entries is %u, expected 0 or the %u columns of blocks that there are: a row may see all of them",
                    blocks.entries, out.lists.blockColumns);
    if (const auto r = share("batch entries", "batches", blocks.batches, p.batch, ofEachEntry(p), why)) return r;
    if (const auto r = share("heads", "heads", blocks.heads, p.heads, ofEachHead(p), why)) return r;
    if (blocks.batches == 1) p.batch = 1;
    if (blocks.heads == 1) p.heads = p.kvHeads = 1;
    return VKATTN_OK;
}

} // namespace

bool VisibleBlocks::uses(vkattn_role role) const {
    if (isBlockArray(role) && lists.hasBlockArray(role)) return true;
    const bool ofTokens = role == VKATTN_Q || role == VKATTN_K || role == VKATTN_V || role == VKATTN_OUT || isLaterTensor(role);
    return !ofTokens && attention.uses(role);
}

ByteRange VisibleBlocks::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    return writes(role) ? ByteRange{0, 4 * blockArrayLength(lists, role)} : attention.bytesUsed(role);
}

vkattn_result makeVisibleBlocks(const vkattn_visible_blocks *description, VisibleBlocks &out, vkattn_diagnostic *why) {
    if (!description) return fail(why, invalid, "operation.of.visibleBlocks is NULL");
    if (const auto r = checkStructSize(*description, "visibleBlocks", "vkattn_visible_blocks", why)) return r;
    vkattn_visible_blocks room;
    const vkattn_visible_blocks &given = completed(*description, room);
    if (given.flags) return fail(why, invalid, "visibleBlocks.flags is 0x%x, expected 0", given.flags);
    if (!given.attention) return fail(why, invalid, "visibleBlocks.attention is NULL");
    if (const auto r = checkStructSize(*given.attention, "visibleBlocks.attention", "vkattn_problem", why)) return r;
    vkattn_problem attentionRoom;
    const vkattn_problem scores = scoresOnly(completed(*given.attention, attentionRoom));
    out = VisibleBlocks{};
    Problem &p = out.attention;
    if (const auto r = makeProblem(&scores, p, why)) return r;
    if (p.unmaskedKeys) return fail(why, invalid, "attention has a mask or a bias of fewer keys than k; lists of blocks are of every key");
    // What changes scores alone.
    p.softcap = 0;
    p.presentRoles &= ~uint32_t{VKATTN_PRESENT(VKATTN_ALIBI_SLOPES)};
    p.program.hooks &= VKATTN_HOOK_VISIBLE;
    if (p.program.hooks == 0) p.program = {};
    p.slices = 1;
    p.segments = {1, {0, p.keyTokens}}; // no key is read
    return takeLists(given.blocks, out, why);
}

} // namespace vkattn
