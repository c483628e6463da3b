// The kernels of statistics, compiled once for each of Highway's targets; the best one that the processor
// has is chosen when a call needs it.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/statistics/kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "cpu/statistics/work.hpp"

#include "cpu/statistics/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

void statisticsOfRows(const StatisticsCall &call, const StatisticsUnit &unit, float *scratch) {
    StatisticsOfRows(call, unit, scratch).compute();
}

const StatisticsKernels &kernelsOfStatistics() {
    static const StatisticsKernels own = {hwy::TargetName(HWY_TARGET), StatisticsOfRows::panelRows, statisticsOfRows};
    return own;
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vkattn {

HWY_EXPORT(kernelsOfStatistics);

const StatisticsKernels &statisticsKernels() {
    return HWY_DYNAMIC_DISPATCH(kernelsOfStatistics)();
}

} // namespace vkattn
#endif
