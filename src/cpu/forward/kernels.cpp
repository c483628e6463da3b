// The kernels, compiled once for each of Highway's targets; the best one that the processor has is
// chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/attention.hpp"

#include <limits>

#include "cpu/forward/few_rows-inl.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

const KernelShape &kernelShape() {
    static constexpr KernelShape shape = {nullptr, static_cast<uint32_t>(lanes), static_cast<uint32_t>(2 * lanes), mostFewRows};
    return shape;
}

bool takesFewRows(const Call &call, const Sequence &s) {
#if HWY_TARGET != HWY_SCALAR
    return FewRowsAttention::fits(call, s);
#else
    static_cast<void>(call), static_cast<void>(s);
    return false;
#endif
}

template <size_t vectors> void attendTiles(const Call &call, const Unit &unit, float *scratch) {
    TileAttention<vectors> attention(call, unit, scratch);
    unit.patch.columns ? attention.attendPatch() : attention.attend();
}

void attend(const Call &call, const Unit &unit, float *scratch) {
#if HWY_TARGET != HWY_SCALAR
    if (takesFewRows(call, *unit.s)) return FewRowsAttention(call, unit, scratch).attend();
#endif
    if (unit.rows <= lanes)
        attendTiles<1>(call, unit, scratch);
    else
        attendTiles<2>(call, unit, scratch);
}

void exp2OfArray(const float *x, float *y, size_t count) {
    for (size_t n = 0; n < count; n += lanes) hn::StoreU(exp2Of(hn::LoadU(Floats(), x + n)), Floats(), y + n);
}

const Kernels &targetKernels() {
    static const Kernels own = {{hwy::TargetName(HWY_TARGET), kernelShape().lanes, kernelShape().panelRows, kernelShape().mostFewRows},
                                attend,
                                takesFewRows,
                                joinSplits,
                                exp2OfArray};
    return own;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(targetKernels);

const Kernels &kernels() {
    return HWY_DYNAMIC_DISPATCH(targetKernels)();
}

} // namespace vkattn
#endif
