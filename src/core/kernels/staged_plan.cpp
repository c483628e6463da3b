// How the staged kernel cuts a problem, and what speaks for it.
#include "core/kernels/staged.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/compile_cost.hpp"
#include "core/plan/tuning/table.hpp"

#include <cstdio>

namespace vkattn {
namespace {

using interop::priorColumns;

constexpr uint32_t rowPitch(const Problem &p) {
    return std::max(p.keyTokens, 1u) + (p.goesOn() ? priorColumns : p.has(VKATTN_SINKS) ? 1 : 0);
}

struct StagedLimits {
    const Problem &p;
    const Caps &caps;
    const StagedTuning &tuning;
    uint32_t rowTile = tuning.scores[manyRows].sizeY(), keyTile = 1, headTile = 1;
    uint32_t sliceQueries = p.queryTokens < tuning.fewRowsBelow ? 1 : rowTile, sliceKeys = 1024;

    [[nodiscard]] bool keysFit(const ChunkShape &s) const {
        const uint32_t tileX = std::min(tuning.scores[manyRows].sizeX(), tuning.scores[fewRows].sizeX());
        return s.keys <= mostItemsPerDispatch(p) &&
               ceilDiv(s.keys, std::min(tileX, tuning.pairLanes * tuning.pairKeysPerLane)) <= caps.maxWorkgroupCount[0];
    }
    // Row tiles run along y in scores and values, single rows along x in softmax and along y in the
    // pair terms.
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        return s.queries <= caps.maxWorkgroupCount[0] && s.queries <= caps.maxWorkgroupCount[1];
    }
    // scores, and partial sums between chunks of keys, or before the first
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const {
        const uint64_t rows = uint64_t{s.batches} * s.heads * s.queries;
        return 4 * rows * (uint64_t{rowPitch(p)} + (p.goesOn() || chunksOfKeys(p, s.keys) > 1 ? p.valueDim : 0));
    }
};

} // namespace

vkattn_result staged::supported(const Kernel &, const PlanLimits &planLimits, vkattn_diagnostic *why) {
    const Caps &caps = planLimits.caps;
    const Caps floor = minimumCaps();
    const struct {
        const char *name;
        uint32_t has, needs;
    } limits[] = {{"maxPerStageDescriptorStorageBuffers", caps.maxStorageBuffersPerStage, floor.maxStorageBuffersPerStage},
                  {"maxPushConstantsSize", caps.maxPushConstantsBytes, floor.maxPushConstantsBytes},
                  {"maxComputeWorkGroupInvocations", caps.maxWorkgroupInvocations, floor.maxWorkgroupInvocations},
                  {"maxComputeWorkGroupSize[0]", caps.maxWorkgroupSize[0], floor.maxWorkgroupSize[0]},
                  {"maxComputeSharedMemorySize", caps.maxSharedMemoryBytes, floor.maxSharedMemoryBytes}};
    for (const auto &limit : limits)
        if (limit.has < limit.needs)
            return fail(why, VKATTN_ERROR_UNSUPPORTED, "the device's %s is %u; the staged kernel needs %u, the Vulkan 1.0 minimum",
                        limit.name, limit.has, limit.needs);
    return VKATTN_OK;
}

vkattn_result staged::makePlan(const Kernel &kernel, const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (const auto r = supported(kernel, limits, why)) return r;
    out = Plan{};
    out.kernel = &kernel;
    out.problem = problem;
    if (const auto r = startPlan(limits, out, why)) return r;
    if (problem.program.sumless() && problem.drops())
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "dropout with vkattnRow of the program %s is not in the staged kernel, which drops pairs in its softmax; take AUTO",
                    nameOf(*problem.program.program));
    if (problem.queryTokens == 0) return VKATTN_OK; // nothing to write

    if (const uint32_t most = maxKeysPerLane * out.tuning.softmaxLanes[fewRows]; problem.keyTokens > most)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%u keys; the staged kernel's softmax takes rows of at most %u", problem.keyTokens,
                    most);
    // Longer rows take other sums of other lanes, and maxSeqK, which decides for all sequences, is
    // no property of the one sequence.
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
    Chunker chunker(problem, limits, own, out.setUpBytes);
    ChunkShape shape;
    if (!chunker.choose(shape, why)) return VKATTN_ERROR_UNSUPPORTED;
    setChunks(out, shape);
    out.rowPitch = rowPitch(problem);
    out.sumsOffset = uint64_t{shape.batches} * shape.heads * shape.queries * out.rowPitch;
    out.workspaceBytes = out.setUpBytes + own.workspaceBytes(shape);
    return setDispatchCount(out, dispatchesPerRowChunk(out), why);
}

void staged::explain(const Plan &plan, vkattn_explanation &out) {
    out.form = "";
    out.compileOperations = compileOperations(plan.tuning);
    // Scores and weights go through memory in each chunk.
    const double bytes = 2.0 * static_cast<double>(plan.chunkCount()) * static_cast<double>(plan.workspaceBytes);
    out.bytesRead += bytes;
    out.bytesWritten += bytes;
}

void staged::whyChosen(const Problem &, const FlashTuning &, char *text, size_t size) {
    std::snprintf(text, size, "neither flash nor decode can take the problem");
}

const char *staged::whyNotChosen(const Plan &, const FlashTuning &) {
    return "it can run, but keeps all scores in memory";
}

} // namespace vkattn
