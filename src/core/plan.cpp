// Which kernel computes a problem.
#include "core/plan.hpp"

#include "core/flash.hpp"
#include "core/staged.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {

const char *kernelName(vkattn_kernel kernel) {
    static constexpr const char *names[] = {"auto", "staged", "flash", "decode", "flash_coopmat", "flash_coopmat2"};
    static_assert(sizeof names / sizeof names[0] == VKATTN_KERNEL_COUNT);
    return names[kernel];
}

vkattn_result makePlanFor(vkattn_kernel kernel, const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    return kernel == VKATTN_KERNEL_STAGED ? makeStagedPlan(problem, limits, out, why) : makeFlashPlan(kernel, problem, limits, out, why);
}

vkattn_result makePlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (problem.kernel != VKATTN_KERNEL_AUTO) return makePlanFor(problem.kernel, problem, limits, out, why);
    const uint64_t rows = uint64_t{problem.queryTokens} * problem.groupSize();
    if (limits.tuning.matrixRows && rows >= limits.tuning.matrixRows)
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH_COOPMAT2, VKATTN_KERNEL_FLASH_COOPMAT})
            if (makeFlashPlan(kernel, problem, limits, out, nullptr) == VKATTN_OK) return VKATTN_OK;
    const bool fewRows = rows <= limits.tuning.decodeRows;
    if (fewRows && makeFlashPlan(VKATTN_KERNEL_DECODE, problem, limits, out, nullptr) == VKATTN_OK) return VKATTN_OK;
    if (makeFlashPlan(VKATTN_KERNEL_FLASH, problem, limits, out, nullptr) == VKATTN_OK) return VKATTN_OK;
    return makeStagedPlan(problem, limits, out, why);
}

PipelineSet Plan::pipelines() const {
    PipelineSet set;
    if (dispatchCount == 0) return set;
    const uint32_t setUp = setUpDispatches();
    for (uint32_t n = 0; n < setUp; ++n) set.add(dispatch(n).key);
    // Chunks of rows differ only in how many rows they have: the first has all, the last in query direction may have fewer.
    const uint32_t perRowChunk = dispatchesPerRowChunk();
    for (uint32_t rowChunk = 0; rowChunk < queryChunks; rowChunk += std::max(queryChunks - 1, 1u))
        for (uint32_t n = 0; n < perRowChunk; ++n) set.add(dispatch(setUp + rowChunk * perRowChunk + n).key);
    return set;
}

uint64_t Plan::storageDescriptorCount() const {
    if (kernel == VKATTN_KERNEL_STAGED) return uint64_t{dispatchCount} * stagedOperands;
    if (dispatchCount == 0) return 0;
    uint64_t count = 0; // all chunks of rows have the same dispatches
    const uint32_t setUp = setUpDispatches(), perRowChunk = dispatchesPerRowChunk();
    for (uint32_t n = 0; n < perRowChunk; ++n) count += operandSlots(dispatch(setUp + n).key.stage);
    return setUp * stagedOperands + count * ((dispatchCount - setUp) / perRowChunk);
}

uint32_t Plan::dispatchesPerRowChunk() const {
    return kernel == VKATTN_KERNEL_STAGED ? stagedDispatchesPerRowChunk(*this) : flashDispatchesPerRowChunk(*this);
}

Dispatch Plan::dispatch(uint32_t index) const {
    return kernel == VKATTN_KERNEL_STAGED ? stagedDispatch(*this, index) : flashDispatch(*this, index);
}

} // namespace vkattn
