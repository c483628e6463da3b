// Cutting a problem into chunks that meet the device's limits and the workspace cap.
#include "core/plan.hpp"

#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {
namespace {

struct ChunkShape {
    uint32_t batches, heads, queries, keys;
};

constexpr uint64_t ceilDiv(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
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

class Chunker {
  public:
    Chunker(const Problem &p, const PlanLimits &limits, const StagedTuning &tuning) : p_(p), caps_(limits.caps), tuning_(tuning) {
        workspaceBudget_ = std::min<uint64_t>(limits.maxWorkspaceBytes, caps_.maxStorageBufferRange);
    }

    // The shape with the fewest pieces; false with a reason where not even one row of one head fits.
    bool choose(ChunkShape &best, vkattn_diagnostic *why) {
        best = {p_.batch, p_.heads, p_.queryTokens, std::max(p_.keyTokens, 1u)};
        if (fits(best)) return true;
        uint64_t bestPieces = UINT64_MAX;
        for (uint32_t batches = p_.batch;; batches = (batches + 1) / 2) {
            for (uint32_t heads = p_.heads;; heads = (heads + 1) / 2) {
                const ChunkShape shape = fill(batches, heads);
                if (shape.queries && shape.keys) {
                    const uint64_t pieces = ceilDiv(p_.batch, batches) * ceilDiv(p_.heads, heads) * ceilDiv(p_.queryTokens, shape.queries) *
                                            ceilDiv(std::max(p_.keyTokens, 1u), shape.keys);
                    if (pieces < bestPieces) bestPieces = pieces, best = shape;
                }
                if (heads == 1) break;
            }
            if (batches == 1) break;
        }
        if (bestPieces != UINT64_MAX) return true;
        // One row may exceed the workspace cap (vkattn_host::maxWorkspaceBytes), but not what a binding can hold.
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

    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const {
        const uint64_t rows = uint64_t{s.batches} * s.heads * s.queries;
        return 4 * rows * (uint64_t{std::max(p_.keyTokens, 1u)} + (s.keys < p_.keyTokens ? p_.valueDim : 0));
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
        if (!s.keys) return s;
        s.queries = largest(p_.queryTokens, [&](uint32_t n) {
            ChunkShape t = s;
            t.queries = n;
            return fits(t);
        });
        const uint32_t tile = tuning_.scores[manyRows].sizeY();
        if (s.queries < p_.queryTokens && s.queries > tile) s.queries -= s.queries % tile; // whole tiles
        return s;
    }
    [[nodiscard]] uint32_t kvHeads(uint32_t heads) const {
        const uint32_t group = p_.groupSize();
        if (heads % group == 0 || group % heads == 0) return static_cast<uint32_t>(ceilDiv(heads, group));
        return std::min(p_.kvHeads, static_cast<uint32_t>(ceilDiv(heads - 1, group)) + 1); // a chunk may begin inside a group
    }
    // Bindings begin at multiples of the device's alignment and end at whole words.
    [[nodiscard]] bool bindable(const Tensor &tensor, const Box &box) const {
        return tensor.span(box).size() + caps_.minStorageBufferOffsetAlignment + 8 <= caps_.maxStorageBufferRange;
    }
    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        if (s.keys > maxKeysPerDispatch) return false;
        const Box kv = {{}, {s.batches, kvHeads(s.heads), std::min(s.keys, p_.keyTokens), 0}};
        Box k = kv, v = kv;
        k.count[3] = p_.headDim;
        v.count[3] = p_.valueDim;
        const Box pairs = {{}, {s.batches, s.heads, s.queries, std::min(s.keys, p_.keyTokens)}};
        const uint64_t groupsX =
            ceilDiv(s.keys, std::min(smallestTileX(tuning_.scores), tuning_.overlayLanes * tuning_.overlayKeysPerLane));
        return bindable(p_.tensor(VKATTN_K), k) && bindable(p_.tensor(VKATTN_V), v) && bindable(p_.tensor(VKATTN_BIAS), pairs) &&
               bindable(p_.tensor(VKATTN_MASK), pairs) && groupsX <= caps_.maxWorkgroupCount[0];
    }
    [[nodiscard]] bool fits(const ChunkShape &s) const {
        const auto rows = [&](uint32_t dim) { return Box{{}, {s.batches, s.heads, s.queries, dim}}; };
        // Row tiles run along y in scores and values, single rows along x in softmax and along y in bias and mask.
        return keysFit(s) && bindable(p_.tensor(VKATTN_Q), rows(p_.headDim)) && bindable(p_.tensor(VKATTN_OUT), rows(p_.valueDim)) &&
               bindable(p_.tensor(VKATTN_LSE), rows(1)) && bindable(p_.tensor(VKATTN_WEIGHTS), rows(p_.keyTokens)) &&
               workspaceBytes(s) <= workspaceBudget_ && s.queries <= caps_.maxWorkgroupCount[0] &&
               s.queries <= caps_.maxWorkgroupCount[1] && uint64_t{s.batches} * s.heads <= caps_.maxWorkgroupCount[2];
    }
    static uint32_t smallestTileX(const TileShape (&shapes)[2]) { return std::min(shapes[manyRows].sizeX(), shapes[fewRows].sizeX()); }
    void explain(vkattn_diagnostic *why) const {
        const auto range = static_cast<unsigned long long>(caps_.maxStorageBufferRange);
        const struct {
            vkattn_role role;
            uint32_t dim;
        } rows[] = {{VKATTN_Q, p_.headDim}, {VKATTN_K, p_.headDim},         {VKATTN_V, p_.valueDim}, {VKATTN_OUT, p_.valueDim},
                    {VKATTN_LSE, 1},        {VKATTN_WEIGHTS, p_.keyTokens}, {VKATTN_BIAS, 1},        {VKATTN_MASK, 1}};
        for (const auto &[role, dim] : rows) {
            const Box box = {{}, {1, 1, 1, dim}};
            if (!bindable(p_.tensor(role), box)) {
                (void)fail(why, VKATTN_ERROR_UNSUPPORTED,
                           "one row of %s spans %llu bytes, over the device's maxStorageBufferRange of %llu; store it more densely",
                           roleName(role), static_cast<unsigned long long>(p_.tensor(role).span(box).size()), range);
                return;
            }
        }
        (void)fail(why, VKATTN_ERROR_UNSUPPORTED,
                   "the scores of one query row need %llu bytes of workspace, over the device's maxStorageBufferRange of %llu",
                   static_cast<unsigned long long>(workspaceBytes({1, 1, 1, std::max(p_.keyTokens, 1u)})), range);
    }

    const Problem &p_;
    const Caps &caps_;
    const StagedTuning &tuning_;
    uint64_t workspaceBudget_;
};

} // namespace

vkattn_result makePlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (const auto r = stagedSupported(limits.caps, why)) return r;
    out = Plan{};
    out.problem = problem;
    out.tuning = stagedTuning(limits.caps);
    out.workspaceAlignment = std::max(limits.caps.minStorageBufferOffsetAlignment, 4u);
    if (problem.queryTokens == 0) return VKATTN_OK; // nothing to write
    if (problem.presentRoles & ~(1u << VKATTN_KEY_LENGTHS) || problem.tensor(VKATTN_BIT_MASK).present())
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "this option is not in the staged kernel yet");

    if (const uint32_t most = maxKeysPerLane * out.tuning.softmaxLanes[fewRows]; problem.keyTokens > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%u keys; the staged kernel's softmax takes rows of at most %u", problem.keyTokens,
                    most);

    Chunker chunker(problem, limits, out.tuning);
    ChunkShape shape;
    if (!chunker.choose(shape, why)) return VKATTN_ERROR_UNSUPPORTED;
    out.chunkBatches = shape.batches;
    out.chunkHeads = shape.heads;
    out.chunkQueries = shape.queries;
    out.chunkKeys = shape.keys;
    out.batchChunks = static_cast<uint32_t>(ceilDiv(problem.batch, shape.batches));
    out.headChunks = static_cast<uint32_t>(ceilDiv(problem.heads, shape.heads));
    out.queryChunks = static_cast<uint32_t>(ceilDiv(problem.queryTokens, shape.queries));
    out.keyChunks = static_cast<uint32_t>(ceilDiv(std::max(problem.keyTokens, 1u), shape.keys));
    out.rowPitch = std::max(problem.keyTokens, 1u);
    out.sumsOffset = uint64_t{shape.batches} * shape.heads * shape.queries * out.rowPitch;
    out.workspaceBytes = chunker.workspaceBytes(shape);

    const double count = static_cast<double>(out.dispatchesPerRowChunk()) * out.batchChunks * out.headChunks * out.queryChunks;
    if (count > 1e9)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the problem would take %.0f dispatches to meet the device's limits; make tensors denser or the problem smaller",
                    count);
    out.dispatchCount = static_cast<uint32_t>(count);
    return VKATTN_OK;
}

} // namespace vkattn
