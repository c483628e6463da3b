#include "problem/rules.hpp"

#include "problem/problem.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr const char *axisNames[] = {"planes", "rows", "columns"};

bool present(const vkattn_problem &p, vkattn_role role) {
    return (p.presentRoles & VKATTN_PRESENT(role)) != 0;
}

vkattn_result makeWindow(const vkattn_problem &p, Problem &out, vkattn_diagnostic *why) {
    const bool window = p.flags & VKATTN_WINDOW, dilations = present(p, VKATTN_DILATIONS), global = present(p, VKATTN_GLOBAL_TOKENS);
    if (!window && (p.dilation || dilations))
        return fail(why, invalid,
                    "%s without VKATTN_WINDOW; dilation spreads the keys of a window: set the flag, or leave the dilation out",
                    dilations ? "dilations are in presentRoles" : "dilation is set");
    if (!window && global)
        return fail(why, invalid,
                    "global tokens are in presentRoles without VKATTN_WINDOW; without a window every token sees all keys: set the flag, or "
                    "leave them out");
    if (p.dilation > maxDilation) return fail(why, invalid, "dilation is %u, expected at most %u", p.dilation, maxDilation);
    if (dilations && p.dilation == 0)
        return fail(why, invalid, "dilations are in presentRoles and dilation is 0, expected the most that a head may have, at least 1");
    if (present(p, VKATTN_PREFIX_LENGTHS) && !(p.flags & VKATTN_CAUSAL))
        return fail(
            why, invalid,
            "prefix lengths are in presentRoles without VKATTN_CAUSAL; a prefix shows keys that causal hides: set the flag, or leave "
            "them out");
    Rules &rules = out.rules;
    rules.dilation = std::max(p.dilation, 1u);
    rules.global = global;
    const auto side = [&](int32_t given) { return window && given >= 0 ? std::min(given, openWindow) : openWindow; };
    rules.windowLeft = side(p.windowLeft), rules.windowRight = side(p.windowRight);
    const auto reach = [&](int32_t steps) {
        return global ? openWindow : static_cast<int32_t>(std::min<int64_t>(int64_t{steps} * rules.dilation, openWindow));
    };
    out.left = reach(rules.windowLeft), out.right = reach(rules.windowRight);
    if (p.flags & VKATTN_CAUSAL && !present(p, VKATTN_PREFIX_LENGTHS)) out.right = 0;
    return VKATTN_OK;
}

vkattn_result makeGrid(const vkattn_grid &given, Problem &out, vkattn_diagnostic *why) {
    vkattn_grid &grid = out.rules.grid = given;
    if (static_cast<uint32_t>(grid.rule) > VKATTN_GRID_WINDOWS)
        return fail(why, invalid, "grid.rule is %d, expected a vkattn_grid_rule, 0 to %d", static_cast<int>(grid.rule),
                    static_cast<int>(VKATTN_GRID_WINDOWS));
    uint64_t tokens = 1;
    for (int axis = 0; axis < 3; ++axis) {
        if (grid.rule == VKATTN_GRID_NONE && (grid.extent[axis] || grid.size[axis] || grid.shift[axis]))
            return fail(why, invalid, "grid has %s %u, size %u and shift %u with VKATTN_GRID_NONE; set grid.rule, or leave them 0",
                        axisNames[axis], grid.extent[axis], grid.size[axis], grid.shift[axis]);
        if (grid.rule == VKATTN_GRID_NONE) continue;
        uint32_t &extent = grid.extent[axis], &size = grid.size[axis];
        extent = std::max(extent, 1u), size = std::max(size, 1u);
        // At most 2^30 tokens: the product of two extents fits.
        if (extent > maxTokens || (tokens *= extent) > maxTokens)
            return fail(why, invalid, "grid is %u x %u x %u, expected at most %u tokens", given.extent[0], given.extent[1], given.extent[2],
                        maxTokens);
        if (grid.rule == VKATTN_GRID_WINDOWS ? grid.shift[axis] >= size : grid.shift[axis] != 0)
            return fail(why, invalid, "grid.shift of %s is %u, expected %s", axisNames[axis], grid.shift[axis],
                        grid.rule == VKATTN_GRID_WINDOWS ? "less than the size of a window" : "0: only windows are shifted");
        if (grid.rule != VKATTN_GRID_WINDOWS && size % 2 == 0)
            return fail(why, invalid, "grid.size of %s is %u, expected an odd number: as many tokens before a query as after it",
                        axisNames[axis], size);
        if (grid.rule == VKATTN_GRID_CLAMPED && size > extent)
            return fail(why, invalid, "grid.size of %s is %u, expected at most the %u that there are: a clamped neighbourhood lies inside",
                        axisNames[axis], size, extent);
        if (size > maxTokens) return fail(why, invalid, "grid.size of %s is %u, expected at most %u", axisNames[axis], size, maxTokens);
    }
    if (grid.rule != VKATTN_GRID_NONE && tokens != out.keyTokens)
        return fail(why, invalid, "grid is %u x %u x %u, which are %llu tokens, expected as many as the %u keys that there are",
                    grid.extent[0], grid.extent[1], grid.extent[2], static_cast<unsigned long long>(tokens), out.keyTokens);
    return VKATTN_OK;
}

} // namespace

vkattn_result makeBlocks(const vkattn_blocks &given, Problem &out, vkattn_diagnostic *why) {
    vkattn_blocks &blocks = out.rules.blocks = given;
    if (static_cast<uint32_t>(blocks.kind) > VKATTN_BLOCKS_BIGBIRD)
        return fail(why, invalid, "blocks.kind is %d, expected a vkattn_block_kind, 0 to %d", static_cast<int>(blocks.kind),
                    static_cast<int>(VKATTN_BLOCKS_BIGBIRD));
    const bool draws = blocks.kind == VKATTN_BLOCKS_BIGBIRD, indices = blocks.kind == VKATTN_BLOCKS_INDICES;
    if (!draws && (blocks.random || blocks.seed))
        return fail(why, invalid, "blocks.random is %u and blocks.seed %llu, expected 0: only VKATTN_BLOCKS_BIGBIRD draws blocks",
                    blocks.random, static_cast<unsigned long long>(blocks.seed));
    if (blocks.kind == VKATTN_BLOCKS_NONE) {
        if (blocks.queries || blocks.keys || blocks.batches || blocks.heads || blocks.entries || blocks.full)
            return fail(why, invalid, "blocks have sizes with VKATTN_BLOCKS_NONE; set blocks.kind, or leave all of it 0");
        return VKATTN_OK;
    }
    if (draws && blocks.keys == 0) blocks.keys = blocks.queries;
    if (blocks.queries == 0 || blocks.keys == 0)
        return fail(why, invalid, "a block has %u queries and %u keys, expected at least 1 of each", given.queries, given.keys);
    if (blocks.full > 1 || (blocks.full && !indices))
        return fail(why, invalid, "blocks.full is %u, expected 0, or 1 with VKATTN_BLOCKS_INDICES", blocks.full);
    if (blocks.entries && !indices && blocks.kind != VKATTN_BLOCKS_LISTS)
        return fail(why, invalid, "blocks.entries is %u, expected 0: only lists and indices have entries", blocks.entries);
    if (draws) {
        if (blocks.queries != blocks.keys || out.queryTokens != out.keyTokens)
            return fail(why, invalid,
                        "BigBird has blocks of %u x %u and %u queries with %u keys, expected as many queries as keys: its blocks lie about "
                        "the diagonal",
                        blocks.queries, blocks.keys, out.queryTokens, out.keyTokens);
        if (blocks.random > maxRandomBlocks)
            return fail(why, invalid, "blocks.random is %u, expected at most %u random blocks of a row", blocks.random, maxRandomBlocks);
        if (blocks.batches || blocks.heads)
            return fail(why, invalid, "blocks.batches is %u and blocks.heads %u, expected 0: BigBird draws for each head", blocks.batches,
                        blocks.heads);
        blocks.heads = out.heads;
    }
    blocks.batches = std::max(blocks.batches, 1u), blocks.heads = std::max(blocks.heads, 1u);
    if ((blocks.batches != 1 && blocks.batches != out.batch) || (blocks.heads != 1 && blocks.heads != out.heads))
        return fail(why, invalid, "blocks are those of %u batch entries and %u heads, expected 1, or the %u and %u that there are",
                    blocks.batches, blocks.heads, out.batch, out.heads);
    blocks.queries = std::min(blocks.queries, maxTokens), blocks.keys = std::min(blocks.keys, maxTokens);
    const auto count = [](uint32_t tokens, uint32_t size) { return tokens / size + (tokens % size != 0); };
    out.rules.blockRows = count(out.queryTokens, blocks.queries);
    out.rules.blockColumns = count(out.keyTokens, blocks.keys);
    if (indices && blocks.entries > out.rules.blockColumns)
        return fail(why, invalid, "blocks.entries is %u, expected at most the %u columns of blocks that there are", blocks.entries,
                    out.rules.blockColumns);
    if (indices && blocks.entries == 0) blocks.entries = out.rules.blockColumns;
    return VKATTN_OK;
}

uint64_t blockArrayLength(const Rules &rules, vkattn_role role) {
    const uint64_t planes = rules.blockPlanes(), blockRows = planes * rules.blockRows;
    switch (role) {
    case VKATTN_BLOCK_MASK:
        return blockRows * rules.blockColumns;
    case VKATTN_BLOCK_ROWS:
        return blockRows + planes;
    case VKATTN_BLOCK_COLUMNS:
        return rules.blocks.entries;
    case VKATTN_BLOCK_COUNTS:
    case VKATTN_FULL_BLOCK_COUNTS:
        return blockRows;
    default:
        return blockRows * rules.blocks.entries;
    }
}

vkattn_result makeRules(const vkattn_problem &description, Problem &out, vkattn_diagnostic *why) {
    if (const auto r = makeWindow(description, out, why)) return r;
    if (const auto r = makeGrid(description.grid, out, why)) return r;
    return makeBlocks(description.blocks, out, why);
}

} // namespace vkattn
