// The kernels of linear attention, compiled once for each of Highway's targets; the best one that the processor
// has is chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/linear/work.hpp"

#include "cpu/linear/scan-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

void scanOfHead(const LinearCall &call, const LinearUnit &unit, float *scratch) {
    ScanOfHead(call, unit, scratch).compute();
}

const LinearKernels &kernelsOfLinear() {
    static const LinearKernels own = {hwy::TargetName(HWY_TARGET), scanOfHead};
    return own;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(kernelsOfLinear);

const LinearKernels &linearKernels() {
    return HWY_DYNAMIC_DISPATCH(kernelsOfLinear)();
}

} // namespace vkattn
#endif
