// What all kernels' plans have in common.
#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/tuning/table.hpp"

#include <algorithm>

namespace vkattn {

vkattn_result startPlan(const PlanLimits &limits, Plan &plan, vkattn_diagnostic *why) {
    plan.tuning = stagedTuning(limits.caps);
    plan.orderForm = tileOrder(limits.caps);
    return setTable(plan, limits, why);
}

PipelineSet Plan::pipelines() const {
    PipelineSet set;
    if (dispatchCount == 0) return set;
    for (uint32_t n = 0; n < setUpDispatches; ++n) set.add(dispatch(n).key);
    // Chunks of rows differ only in how many rows they have: the first has all, the last in query
    // direction may have fewer.
    const uint32_t perRowChunk = dispatchesPerRowChunk();
    for (uint32_t rowChunk = 0; rowChunk < queryChunks; rowChunk += std::max(queryChunks - 1, 1u))
        for (uint32_t n = 0; n < perRowChunk; ++n) set.add(dispatch(setUpDispatches + rowChunk * perRowChunk + n).key);
    return set;
}

uint64_t Plan::storageDescriptorCount() const {
    if (kernel->plainSlots) return uint64_t{dispatchCount} * plainSlots;
    if (dispatchCount == 0) return 0;
    uint64_t count = 0; // all chunks of rows have the same dispatches
    const uint32_t perRowChunk = dispatchesPerRowChunk();
    for (uint32_t n = 0; n < perRowChunk; ++n) count += infoOf(dispatch(setUpDispatches + n).key.module).slots;
    return uint64_t{setUpDispatches} * plainSlots + count * ((dispatchCount - setUpDispatches) / perRowChunk);
}

uint32_t Plan::dispatchesPerRowChunk() const {
    return kernel->dispatchesPerRowChunk(*this);
}

Dispatch Plan::dispatch(uint32_t index) const {
    return dispatchWithProgram(problem, [&] { return kernel->dispatch(*this, index); });
}

} // namespace vkattn
