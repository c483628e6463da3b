#include "core/plan/slices.hpp"

#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/work.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

// Where keys are cut, a slice may end after each chunk of keys; the merging of partial results
// stays with the last one. A kernel that goes over the chunks more than once may end a slice after
// each dispatch.
uint32_t unitsPerRowChunk(const Plan &plan) {
    if (plan.keyChunks == 1) return 1;
    return plan.kernel->onePassOverKeys ? plan.keyChunks : plan.dispatchesPerRowChunk();
}

uint32_t firstDispatch(const Plan &plan, uint32_t unit) {
    if (unit == 0) return 0;
    if (unit == sliceUnits(plan)) return plan.dispatchCount;
    const uint32_t perRowChunk = unitsPerRowChunk(plan), rowChunk = unit / perRowChunk, step = unit % perRowChunk;
    return plan.setUpDispatches + rowChunk * plan.dispatchesPerRowChunk() + step;
}

// Work of the first rows of a head. A row costs something even where it sees nothing.
double rowsWork(const Problem &p, uint32_t rows) {
    return visiblePairs(p, rows, p.keyTokens) + rows;
}

double totalWork(const Plan &plan) {
    const Problem &p = plan.problem;
    return p.batch * (p.heads * rowsWork(p, p.queryTokens));
}

double workBefore(const Plan &plan, uint32_t unit) {
    if (unit == sliceUnits(plan)) return totalWork(plan);
    const Problem &p = plan.problem;
    const uint32_t perRowChunk = unitsPerRowChunk(plan), step = unit % perRowChunk;
    const Chunk c = rowsOfChunk(plan, unit / perRowChunk);
    const double head = rowsWork(p, p.queryTokens), rows = rowsWork(p, c.queryFirst);
    double part = (rowsWork(p, c.queryFirst + c.queries) - rows) * step / perRowChunk;
    if (plan.kernel->onePassOverKeys && step > 0) {
        const uint32_t keys = step * plan.chunkKeys;
        part = visiblePairs(p, c.queryFirst + c.queries, keys) - visiblePairs(p, c.queryFirst, keys) +
               static_cast<double>(c.queries) * step / perRowChunk;
    }
    return c.batchFirst * (p.heads * head) + c.batches * (c.headFirst * head + c.heads * (rows + part));
}

// The unit that slice `index` begins with: the one whose begin is nearest to its share of the work.
uint32_t firstUnit(const Plan &plan, uint32_t index) {
    const uint32_t units = sliceUnits(plan);
    if (index == 0) return 0;
    if (index >= plan.problem.slices) return units;
    const double target = totalWork(plan) * index / plan.problem.slices;
    // workBefore(low) <= target < workBefore(high), or high is the end
    uint32_t low = 0, high = units;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        (workBefore(plan, middle) <= target ? low : high) = middle;
    }
    return target - workBefore(plan, low) <= workBefore(plan, high) - target ? low : high;
}

} // namespace

uint32_t sliceUnits(const Plan &plan) {
    if (plan.dispatchCount == 0) return 0;
    return plan.batchChunks * plan.headChunks * plan.queryChunks * unitsPerRowChunk(plan);
}

DispatchRange dispatchesOfSlice(const Plan &plan, uint32_t index) {
    if (plan.problem.slices <= 1) return {0, plan.dispatchCount};
    if (plan.dispatchCount == 0) return {0, 0};
    return {firstDispatch(plan, firstUnit(plan, index)), firstDispatch(plan, firstUnit(plan, index + 1))};
}

uint32_t sliceOfDispatch(const Plan &plan, uint32_t dispatch) {
    // The last slice that begins at or before the dispatch.
    uint32_t low = 0, high = plan.problem.slices;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        (dispatchesOfSlice(plan, middle).first <= dispatch ? low : high) = middle;
    }
    return low;
}

double largestShare(const Plan &plan) {
    if (plan.dispatchCount == 0) return 0;
    double largest = 0;
    for (uint32_t index = 0; index < plan.problem.slices; ++index)
        largest = std::max(largest, workBefore(plan, firstUnit(plan, index + 1)) - workBefore(plan, firstUnit(plan, index)));
    return largest / totalWork(plan);
}

uint32_t mostSlices(const Plan &plan, const PlanLimits &limits) {
    if (plan.dispatchCount == 0) return 1;
    Plan finest;
    Problem problem = plan.problem;
    problem.kernel = plan.kernel->id;
    // The largest problems would take more dispatches than a plan may have.
    for (problem.slices = UINT32_MAX; problem.slices > 1; problem.slices /= 16)
        if (makePlan(problem, limits, finest, nullptr) == VKATTN_OK) return sliceUnits(finest);
    return 1;
}

vkattn_result slicesForBudget(const Plan &plan, const PlanLimits &limits, double microseconds, uint32_t &slices, vkattn_diagnostic *why) {
    slices = 1;
    if (plan.dispatchCount == 0) return VKATTN_OK;
    Problem problem = plan.problem;
    problem.kernel = plan.kernel->id;
    const uint32_t dim = std::max(problem.headDim, problem.valueDim), rate = limits.tuning.rate(plan.kernel->tiles, dim);
    if (rate == 0)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the context has no tuning data with a rate of the %s kernel at head dim %u: pass what `vkattn tune` writes for this "
                    "device as vkattn_host::tuning, or choose a sliceCount yourself",
                    plan.kernel->name, dim);
    const double whole = visibleFlops(problem) / rate; // the rate is in millions a second
    const uint32_t most = mostSlices(plan, limits);
    double longest = whole;
    Plan cut = plan;
    for (double wanted = std::ceil(whole / microseconds); longest > microseconds; wanted = std::ceil(wanted * longest / microseconds)) {
        // Slices are not all alike: more of them until the largest is short enough.
        slices = static_cast<uint32_t>(std::min(std::max(wanted, slices + 1.0), static_cast<double>(most)));
        problem.slices = slices;
        if (const auto r = makePlan(problem, limits, cut, why)) return r;
        longest = whole * largestShare(cut);
        if (longest > microseconds && slices == most)
            return fail(why, VKATTN_ERROR_UNSUPPORTED,
                        "the largest of %u slices, the most that there can be, takes about %.0f microseconds; %.0f were asked for", most,
                        longest, microseconds);
    }
    return VKATTN_OK;
}

uint64_t persistentWorkspaceBytes(const Plan &plan) {
    if (plan.problem.slices <= 1) return 0;
    return unitsPerRowChunk(plan) > 1 ? plan.workspaceBytes : plan.setUpBytes;
}

} // namespace vkattn
