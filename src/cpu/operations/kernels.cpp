// The kernels of the operations, compiled once for each of Highway's targets; the best one that the
// processor has is chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/operations/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/operations/work.hpp"

#include "cpu/operations/norm_gradient-inl.hpp"
#include "cpu/operations/projection-inl.hpp"
#include "cpu/operations/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

void projectUnit(const OperationCall &call, uint64_t unit, float *scratch) {
    ProjectionUnit(call, unit, scratch).project();
}

const OperationKernels &kernelsOfOperations() {
    static const OperationKernels own = {hwy::TargetName(HWY_TARGET),
                                         ProjectionUnit::panel,
                                         projectUnit,
                                         normalizeRows,
                                         rotateRows,
                                         appendRows,
                                         advanceWords,
                                         averageRows,
                                         mergeRows,
                                         hadamardRows,
                                         keepBits,
                                         dropRows,
                                         differentiateRows,
                                         sumGradientColumns};
    return own;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(kernelsOfOperations);

const OperationKernels &operationKernels() {
    return HWY_DYNAMIC_DISPATCH(kernelsOfOperations)();
}

} // namespace vkattn
#endif
