// The kernels of the gradients of linear attention, compiled once for each of Highway's targets; the best one that the processor
// has is chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_gradient/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/linear_gradient/work.hpp"

#include "cpu/linear_gradient/reverse-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

void gradientsOfHead(const LinearGradientCall &call, uint32_t b, uint32_t stateHead, float *scratch) {
    GradientsOfHead(call, b, stateHead, scratch).compute();
}

const LinearGradientKernels &kernelsOfLinearGradient() {
    static const LinearGradientKernels own = {hwy::TargetName(HWY_TARGET), gradientsOfHead};
    return own;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(kernelsOfLinearGradient);

const LinearGradientKernels &linearGradientKernels() {
    return HWY_DYNAMIC_DISPATCH(kernelsOfLinearGradient)();
}

} // namespace vkattn
#endif
