// How the staged kernel cuts a problem.
#include "core/plan/chunks.hpp"
#include "core/kernels/staged.hpp"

namespace vkattn {
namespace {

constexpr uint32_t rowPitch(const Problem &p) {
    return std::max(p.keyTokens, 1u) + (p.has(VKATTN_SINKS) ? 1 : 0);
}

struct StagedLimits {
    const Problem &p;
    const Caps &caps;
    const StagedTuning &tuning;
    uint32_t rowTile = tuning.scores[manyRows].sizeY(), keyTile = 1, headTile = 1;
    uint32_t sliceQueries = p.queryTokens < tuning.fewRowsBelow ? 1 : rowTile, sliceKeys = 1024;

    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        const uint32_t tileX = std::min(tuning.scores[manyRows].sizeX(), tuning.scores[fewRows].sizeX());
        return s.keys <= maxKeysPerDispatch &&
               ceilDiv(s.keys, std::min(tileX, tuning.pairLanes * tuning.pairKeysPerLane)) <= caps.maxWorkgroupCount[0];
    }
    // Row tiles run along y in scores and values, single rows along x in softmax and along y in the pair terms.
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        return s.queries <= caps.maxWorkgroupCount[0] && s.queries <= caps.maxWorkgroupCount[1];
    }
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const { // scores, and partial sums between chunks of keys
        const uint64_t rows = uint64_t{s.batches} * s.heads * s.queries;
        return 4 * rows * (uint64_t{rowPitch(p)} + (s.keys < p.keyTokens ? p.valueDim : 0));
    }
};

} // namespace

vkattn_result makeStagedPlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (const auto r = stagedSupported(limits.caps, why)) return r;
    out = Plan{};
    out.kernel = VKATTN_KERNEL_STAGED;
    out.problem = problem;
    out.tuning = stagedTuning(limits.caps);
    if (const auto r = setTable(out, limits, why)) return r;
    if (problem.queryTokens == 0) return VKATTN_OK; // nothing to write

    if (const uint32_t most = maxKeysPerLane * out.tuning.softmaxLanes[fewRows]; problem.keyTokens > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%u keys; the staged kernel's softmax takes rows of at most %u", problem.keyTokens,
                    most);
    // Longer rows take other sums of other lanes, and maxSeqK, which decides for all sequences, is no property of the one sequence.
    if (const uint32_t most = maxKeysPerLane * out.tuning.softmaxLanes[manyRows];
        problem.deterministic && problem.ragged() && problem.keyTokens > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "maxSeqK is %u; with VKATTN_DETERMINISTIC the staged kernel takes sequences of at most %u keys", problem.keyTokens,
                    most);
    // Value dims are not cut into chunks.
    uint32_t columns = out.tuning.values[0].sizeX();
    for (const TileShape &tile : out.tuning.values) columns = std::min(columns, tile.sizeX());
    if (const uint64_t groups = ceilDiv(problem.valueDim, columns); groups > limits.caps.maxWorkgroupCount[0])
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "value dim %u may take %u workgroups; the device's maxComputeWorkGroupCount[0] is %u",
                    problem.valueDim, static_cast<uint32_t>(groups), limits.caps.maxWorkgroupCount[0]);
    const StagedLimits own = {problem, limits.caps, out.tuning};
    Chunker chunker(problem, limits, own, out.tableBytes);
    ChunkShape shape;
    if (!chunker.choose(shape, why)) return VKATTN_ERROR_UNSUPPORTED;
    setChunks(out, shape);
    out.rowPitch = rowPitch(problem);
    out.sumsOffset = uint64_t{shape.batches} * shape.heads * shape.queries * out.rowPitch;
    out.workspaceBytes = out.tableBytes + own.workspaceBytes(shape);
    return setDispatchCount(out, stagedDispatchesPerRowChunk(out), why);
}

} // namespace vkattn
