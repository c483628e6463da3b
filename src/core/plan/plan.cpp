// Which kernel computes a problem.
#include "core/plan/plan.hpp"

#include "core/kernels/flash.hpp"
#include "core/kernels/staged.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {

const char *kernelName(vkattn_kernel kernel) {
    static constexpr const char *names[] = {"auto", "staged", "flash", "decode", "flash_coopmat", "flash_coopmat2"};
    static_assert(sizeof names / sizeof names[0] == VKATTN_KERNEL_COUNT);
    return names[kernel];
}

vkattn_result checkQuarantine(vkattn_kernel kernel, const Caps &caps, vkattn_diagnostic *why) {
    if (kernel == VKATTN_KERNEL_STAGED || !(caps.wrongKernels >> kernel & 1u)) return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "the self-test of the %s kernel failed on this device and driver; take another kernel",
                kernelName(kernel));
}

vkattn_result makePlanFor(vkattn_kernel kernel, const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (const auto r = checkQuarantine(kernel, limits.caps, why)) return r;
    return kernel == VKATTN_KERNEL_STAGED ? makeStagedPlan(problem, limits, out, why) : makeFlashPlan(kernel, problem, limits, out, why);
}

vkattn_result makePlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (problem.kernel != VKATTN_KERNEL_AUTO) return makePlanFor(problem.kernel, problem, limits, out, why);
    const auto taken = [&](vkattn_kernel kernel) {
        return !passedOver(kernel, limits.caps) && makePlanFor(kernel, problem, limits, out, nullptr) == VKATTN_OK;
    };
    const uint64_t rows = uint64_t{problem.queryTokens} * problem.groupSize();
    // flash_coopmat2 is for those who ask for it: it has not been timed on any GPU.
    if (limits.tuning.matrixRows && rows >= limits.tuning.matrixRows && taken(VKATTN_KERNEL_FLASH_COOPMAT)) return VKATTN_OK;
    if (rows <= limits.tuning.decodeRows && taken(VKATTN_KERNEL_DECODE)) return VKATTN_OK;
    if (taken(VKATTN_KERNEL_FLASH)) return VKATTN_OK;
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
