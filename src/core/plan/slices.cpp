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

constexpr const Plan &planOf(const Schedule &schedule) {
    return static_cast<const Plan &>(schedule);
}

uint32_t firstDispatch(const Schedule &schedule, uint32_t unit) {
    if (unit == 0) return 0;
    const Plan &plan = planOf(schedule);
    const uint32_t perRowChunk = unitsPerRowChunk(plan), rowChunk = unit / perRowChunk, step = unit % perRowChunk;
    return plan.setUpDispatches + rowChunk * plan.dispatchesPerRowChunk() + step;
}

// Work of the first rows of a head. A row costs something even where it sees nothing.
double rowsWork(const Problem &p, uint32_t rows) {
    return visiblePairs(p, rows, p.keyTokens) + rows;
}

double workBeforeUnit(const Schedule &schedule, uint32_t unit) {
    const Plan &plan = planOf(schedule);
    const Problem &p = plan.problem;
    const uint32_t perRowChunk = unitsPerRowChunk(plan), rowChunk = unit / perRowChunk, step = unit % perRowChunk;
    if (rowChunk == plan.batchChunks * plan.headChunks * plan.queryChunks) return totalWork(p);
    const Chunk c = rowsOfChunk(plan, rowChunk);
    if (step == 0) return workBefore(plan, c);
    if (!plan.kernel->onePassOverKeys) return workBefore(plan, c) + workOf(plan, c) * step / perRowChunk;
    Chunk next = c;
    selectKeys(plan, step, next);
    const uint32_t keys = next.keyFirst;
    const double part = visiblePairs(p, c.queryFirst + c.queries, keys) - visiblePairs(p, c.queryFirst, keys) +
                        static_cast<double>(c.queries) * step / perRowChunk;
    return workBefore(plan, c) + c.batches * (c.heads * part);
}

// The unit that slice `index` begins with: the one whose begin is nearest to its share of the work.
uint32_t firstUnit(const SliceUnits &units, uint32_t index) {
    if (index == 0) return 0;
    if (index >= units.plan.slices) return units.count;
    const auto before = [&](uint32_t unit) { return units.workBefore(units.plan, unit); };
    const double target = before(units.count) * index / units.plan.slices;
    // before(low) <= target < before(high), or high is the end
    uint32_t low = 0, high = units.count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        (before(middle) <= target ? low : high) = middle;
    }
    return target - before(low) <= before(high) - target ? low : high;
}

} // namespace

DispatchRange dispatchesOfSlice(const SliceUnits &units, uint32_t index) {
    if (units.plan.slices <= 1 || units.count == 0) return {0, units.plan.dispatchCount};
    const auto first = [&](uint32_t slice) {
        const uint32_t unit = firstUnit(units, slice);
        return unit == units.count ? units.plan.dispatchCount : units.firstDispatch(units.plan, unit);
    };
    return {first(index), first(index + 1)};
}

uint32_t sliceOfDispatch(const SliceUnits &units, uint32_t dispatch) {
    // The last slice that begins at or before the dispatch.
    uint32_t low = 0, high = units.plan.slices;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        (dispatchesOfSlice(units, middle).first <= dispatch ? low : high) = middle;
    }
    return low;
}

double largestShare(const SliceUnits &units) {
    if (units.count == 0) return 0;
    double largest = 0, before = 0;
    for (uint32_t index = 0; index < units.plan.slices; ++index) {
        const double end = units.workBefore(units.plan, firstUnit(units, index + 1));
        largest = std::max(largest, end - before);
        before = end;
    }
    return before > 0 ? largest / before : 1;
}

double workBefore(const Plan &plan, const Chunk &c) {
    const Problem &p = plan.problem;
    const double head = rowsWork(p, p.queryTokens);
    return c.batchFirst * (p.heads * head) + c.batches * (c.headFirst * head + c.heads * rowsWork(p, c.queryFirst));
}

double workOf(const Plan &plan, const Chunk &c) {
    const Problem &p = plan.problem;
    return c.batches * (c.heads * (rowsWork(p, c.queryFirst + c.queries) - rowsWork(p, c.queryFirst)));
}

double totalWork(const Problem &p) {
    return p.batch * (p.heads * rowsWork(p, p.queryTokens));
}

SliceUnits sliceUnits(const Plan &plan) {
    const uint32_t count = plan.dispatchCount ? plan.batchChunks * plan.headChunks * plan.queryChunks * unitsPerRowChunk(plan) : 0;
    return {plan, count, workBeforeUnit, firstDispatch};
}

uint32_t mostSlices(const Plan &plan, const PlanLimits &limits) {
    Problem problem = plan.problem;
    return mostSlicesWith(plan, [&](uint32_t slices, Plan &finest) {
        problem.kernel = plan.kernel->id;
        problem.slices = slices;
        return makePlan(problem, limits, finest, nullptr);
    });
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
