// Cutting a problem into chunks that meet the device's limits and the workspace cap.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/work.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {

struct ChunkShape {
    uint32_t batches, heads, queries, keys;
};

constexpr uint64_t ceilDiv(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

constexpr uint64_t roundUpTo(uint64_t n, uint64_t multiple) {
    return ceilDiv(n, multiple) * multiple;
}

// Bytes of some tokens of a tensor. Where a sequence of a ragged batch or a page lies only the device knows: a chunk
// of some of its tokens binds all of them.
[[nodiscard]] inline uint64_t tokenBytes(const Tensor &t, bool anywhere, uint32_t batches, uint32_t heads, uint32_t tokens) {
    return t.span({{}, {anywhere ? t.extent[0] : batches, heads, anywhere ? t.extent[2] : tokens, t.extent[3]}}).size();
}
// Whether a binding can hold them; a tensor that is not there takes none.
[[nodiscard]] inline bool tokensFit(const Caps &caps, const Tensor &t, bool ragged, uint32_t batches, uint32_t heads, uint32_t tokens) {
    return !t.present() || bindable(caps, tokenBytes(t, ragged, batches, heads, tokens));
}

// Largest n in [1, limit] for which fits(n); 0 if none. fits must be monotone.
template <class Fits> uint32_t largest(uint32_t limit, const Fits &fits) {
    if (limit == 0 || fits(limit)) return limit;
    uint32_t low = 0, high = limit; // fits(low) or low == 0; !fits(high)
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        (fits(middle) ? low : high) = middle;
    }
    return low;
}

// A kernel's own limits: keysFit(shape), rowsFit(shape), workspaceBytes(shape) of what grows with a
// chunk; rowTile and keyTile, which chunks are multiples of; headTile, heads that stay together;
// sliceQueries and sliceKeys, below which cutting for slices gains nothing. Whether the roles that
// pairs, rows and keys occupy can be bound is the same for all.
template <class Kernel> class Chunker {
  public:
    Chunker(const Problem &p, const PlanLimits &limits, const Kernel &kernel, uint64_t setUpBytes)
        : p_(p), caps_(limits.caps), kernel_(kernel) {
        const uint64_t left = limits.maxWorkspaceBytes - std::min(setUpBytes, limits.maxWorkspaceBytes);
        workspaceBudget_ = std::min<uint64_t>(left, caps_.maxStorageBufferRange);
        if (p_.slices <= 1) return;
        // Where rows differ, chunks of half a slice let the slices come out even.
        const double padding = static_cast<double>(paddedQueries(p_.queryTokens)) / std::max(p_.queryTokens, 1u);
        const double share = visiblePairs(p_) * padding / p_.slices / (rowsDiffer(p_) ? 2 : 1);
        const double least =
            static_cast<double>(kernel_.headTile) * kernel_.sliceQueries * reach(p_, std::min(kernel_.sliceKeys, p_.keyTokens));
        pairBudget_ = std::max({least, share, 1.0});
    }

    // The shape with the fewest pieces; false with a reason where not even one row of one head
    // fits.
    bool choose(ChunkShape &best, vkattn_diagnostic *why) {
        best = {p_.batch, p_.heads, p_.queryTokens, std::max(p_.keyTokens, 1u)};
        if (fits(best)) return true;
        uint64_t bestPieces = UINT64_MAX;
        // Halves, rounded up; 2^32 - 1 plus 1 would be 0.
        for (uint32_t batches = p_.batch;; batches -= batches / 2) {
            for (uint32_t tiles = p_.heads / kernel_.headTile;; tiles -= tiles / 2) {
                const ChunkShape shape = fill(batches, tiles * kernel_.headTile);
                if (shape.queries && shape.keys) {
                    const uint64_t pieces = ceilDiv(p_.batch, batches) * ceilDiv(p_.heads, shape.heads) *
                                            ceilDiv(p_.queryTokens, shape.queries) * ceilDiv(std::max(p_.keyTokens, 1u), shape.keys);
                    // What a chunk of keys leaves must be kept until the last slice of its rows:
                    // better to cut heads.
                    const bool better = pieces < bestPieces || (p_.slices > 1 && pieces == bestPieces && shape.keys > best.keys);
                    if (better) bestPieces = pieces, best = shape;
                }
                if (tiles == 1) break;
            }
            if (batches == 1) break;
        }
        if (bestPieces != UINT64_MAX) return true;
        // One row may exceed the workspace cap (vkattn_host::maxWorkspaceBytes), but not what a
        // binding can hold.
        if (workspaceBudget_ < caps_.maxStorageBufferRange) {
            workspaceBudget_ = caps_.maxStorageBufferRange;
            const ChunkShape row = fill(1, 1);
            if (row.keys && row.queries) {
                best = {1, 1, 1, row.keys};
                return true;
            }
        }
        explain(why);
        return false;
    }

  private:
    // The most keys, and then the most queries, that go with so many batches and heads.
    ChunkShape fill(uint32_t batches, uint32_t heads) const {
        ChunkShape s{batches, heads, std::min(1u, p_.queryTokens), 0};
        s.keys = largest(std::max(p_.keyTokens, 1u), [&](uint32_t n) {
            ChunkShape t = s;
            t.keys = n;
            return keysFit(t);
        });
        if (s.keys < p_.keyTokens) s.keys -= s.keys % kernel_.keyTile; // whole tiles
        if (!s.keys) return s;
        s.queries = largest(p_.queryTokens, [&](uint32_t n) {
            ChunkShape t = s;
            t.queries = n;
            return fits(t);
        });
        const uint32_t tile = kernel_.rowTile;
        // Whole tiles
        if (s.queries < p_.queryTokens && s.queries > tile) s.queries -= s.queries % tile;
        return s;
    }
    [[nodiscard]] uint32_t kvHeads(uint32_t heads) const {
        const uint32_t group = p_.groupSize();
        if (heads % group == 0 || group % heads == 0) return static_cast<uint32_t>(ceilDiv(heads, group));
        // A chunk may begin inside a group.
        return std::min(p_.kvHeads, static_cast<uint32_t>(ceilDiv(heads - 1, group)) + 1);
    }
    // The most bytes of an operand that a chunk of this shape accesses.
    [[nodiscard]] uint64_t bytesOf(const OperandRule &rule, const ChunkShape &s) const {
        if (!p_.uses(rule.role)) return 0;
        const bool ragged = p_.ragged();
        const auto tokens = [&](uint32_t all, uint32_t some) {
            return 4 * (ragged ? arrayLength(p_, rule.role) : (s.batches - 1ull) * all + some);
        };
        switch (rule.span) {
        case Span::batchArray:
            return 4ull * s.batches;
        case Span::headArray:
            return 4ull * s.heads;
        case Span::queryArray:
            return tokens(p_.queryTokens, s.queries);
        case Span::keyArray:
            return tokens(p_.keyTokens, s.keys);
        case Span::sequenceArray: // read before the first chunk
        case Span::ruleArray:
            return 0;
        default:
            break;
        }
        const Tensor &t = p_.tensor(rule.role);
        const uint32_t keys = std::min(s.keys, p_.keyTokens);
        const auto pairs = [&](uint32_t columns) { return t.span({{}, {s.batches, s.heads, s.queries, columns}}).size(); };
        switch (rule.span) {
        case Span::pairs:
            return pairs(keys);
        case Span::wholePairs:
            return pairs(p_.keyTokens);
        case Span::pairBits: // a chunk may begin and end inside a word
            return pairs(static_cast<uint32_t>(std::min<uint64_t>(keys / 32 + 2, t.extent[3])));
        default: {
            const bool ofKeys = rule.span == Span::keys;
            const uint32_t heads = ofKeys ? kvHeads(s.heads) : s.heads, tokensOfChunk = ofKeys ? keys : s.queries;
            return tokenBytes(t, ofKeys ? p_.keysLieAnywhere() : ragged, s.batches, heads, std::min(tokensOfChunk, t.extent[2]));
        }
        }
    }
    // Of all operands whose size follows the keys of a chunk, or of all the others.
    [[nodiscard]] bool operandsFit(bool ofKeys, const ChunkShape &s) const {
        for (const OperandRule &rule : operandTable)
            if (followsKeys(rule.span) == ofKeys && !bindable(caps_, bytesOf(rule, s))) return false;
        return true;
    }
    [[nodiscard]] uint64_t paddedQueries(uint32_t queries) const { return ceilDiv(queries, kernel_.sliceQueries) * kernel_.sliceQueries; }
    // Of a slice, one dispatch may have so much and no more.
    [[nodiscard]] bool inBudget(const ChunkShape &s) const {
        const double rows = static_cast<double>(s.batches) * s.heads * static_cast<double>(paddedQueries(s.queries));
        return rows * reach(p_, s.keys) <= pairBudget_ + 0.5;
    }
    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        if (p_.slices > 1 && !inBudget(s)) return false;
        return operandsFit(true, s) && kernel_.keysFit(s);
    }
    [[nodiscard]] bool fits(const ChunkShape &s) const {
        return keysFit(s) && operandsFit(false, s) && kernel_.rowsFit(s) && kernel_.workspaceBytes(s) <= workspaceBudget_ &&
               uint64_t{s.batches} * s.heads <= caps_.maxWorkgroupCount[2];
    }
    void explain(vkattn_diagnostic *why) const {
        const auto range = static_cast<unsigned long long>(caps_.maxStorageBufferRange);
        const ChunkShape least = {1, 1, 1, 1};
        for (const OperandRule &rule : operandTable) {
            const uint64_t bytes = bytesOf(rule, least);
            if (bindable(caps_, bytes)) continue;
            const bool pages = p_.paged() && rule.span == Span::keys;
            const bool tokens = (p_.ragged() && !overPairs(rule.span)) || pages;
            (void)fail(why, VKATTN_ERROR_UNSUPPORTED, "%s of %s spans %llu bytes, over the device's maxStorageBufferRange of %llu; %s",
                       isArray(rule.span) ? "the array"
                       : tokens           ? "one head"
                                          : "one row",
                       rule.name, static_cast<unsigned long long>(bytes), range,
                       pages    ? "make several pools of it"
                       : tokens ? "split the ragged batch"
                                : "store it more densely");
            return;
        }
        (void)fail(why, VKATTN_ERROR_UNSUPPORTED,
                   "one query row needs %llu bytes of workspace, over the device's maxStorageBufferRange of %llu",
                   static_cast<unsigned long long>(kernel_.workspaceBytes({1, 1, 1, std::max(p_.keyTokens, 1u)})), range);
    }

    const Problem &p_;
    const Caps &caps_;
    const Kernel &kernel_;
    uint64_t workspaceBudget_;
    double pairBudget_ = 0; // of a problem with slices
};

// The chunk extents of a plan, and how many chunks that makes.
inline void setChunks(Plan &plan, const ChunkShape &shape) {
    const Problem &p = plan.problem;
    plan.chunkBatches = shape.batches;
    plan.chunkHeads = shape.heads;
    plan.chunkQueries = shape.queries;
    plan.chunkKeys = shape.keys;
    plan.batchChunks = static_cast<uint32_t>(ceilDiv(p.batch, shape.batches));
    plan.headChunks = static_cast<uint32_t>(ceilDiv(p.heads, shape.heads));
    plan.queryChunks = static_cast<uint32_t>(ceilDiv(p.queryTokens, shape.queries));
    plan.keyChunks = chunksOfKeys(p, shape.keys);
}

// Sets the dispatch count from what a chunk of rows takes; a plan of too many is refused.
inline vkattn_result setDispatchCount(Plan &plan, uint32_t perRowChunk, vkattn_diagnostic *why) {
    const double count = static_cast<double>(perRowChunk) * plan.batchChunks * plan.headChunks * plan.queryChunks + plan.setUpDispatches;
    if (count > 1e9)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the problem would take %.0f dispatches to meet the device's limits; make tensors denser or the problem smaller",
                    count);
    plan.dispatchCount = static_cast<uint32_t>(count);
    return VKATTN_OK;
}

} // namespace vkattn
