// The kernels of the backward pass, compiled once for each of Highway's targets; the best one that the
// processor has is chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gradient/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/gradient/work.hpp"

#include "cpu/gradient/bias-inl.hpp"
#include "cpu/gradient/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

void gradientOfRows(const GradientCall &call, uint32_t b, uint32_t kvHead, uint32_t chunk, float *scratch) {
    GradientOfRows(call, b, kvHead, chunk, scratch).compute();
}
void gradientOfBias(const GradientCall &call, uint64_t unit, float *scratch) {
    GradientOfBias(call, unit, scratch).compute();
}

const GradientKernels &kernelsOfGradient() {
    static const GradientKernels own = {GradientPanels::panelRows, gradientOfRows, gradientOfBias};
    return own;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(kernelsOfGradient);

const GradientKernels &gradientKernels() {
    return HWY_DYNAMIC_DISPATCH(kernelsOfGradient)();
}

} // namespace vkattn
#endif
