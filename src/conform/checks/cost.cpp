#include "conform/checks/cost.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn::conform {
namespace {

// Two seconds: what the default of --case-timeout is more than enough for, sixty times over.
constexpr double ordinaryCost = 1000;

double compileCost(const Check &check, const DeviceInfo &device) {
    if (device.type != DeviceType::cpu) return 10; // compilers for GPUs do not unroll into thousands of vectors
    const Case &c = check.c;
    if (c.kernel == VKATTN_KERNEL_STAGED) return 10;
    const bool matrixUnits = vkattnKernelTraits(c.kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS;
    const double kernel = matrixUnits ? 2000 : check.testLayout == &testLayouts()[0] ? 300 : 60;
    // Loops over dims are unrolled, and the compilers of software drivers take the square of what comes of that.
    const double dims = std::max(c.headDim, c.valueDim) / 64.0;
    return kernel * std::max(1.0, dims * dims);
}

} // namespace

Cost costOf(const Check &check, const DeviceInfo &device) {
    const Case &c = check.c;
    const double tokens = static_cast<double>(std::max(c.queryTokens, 1u)) * std::max(c.keyTokens, 1u);
    Cost cost;
    cost.compute = 1 + tokens * c.heads * c.batch * (c.headDim + c.valueDim) / 2e6;
    const std::string_view kind = check.kind->name;
    if (kind == "hidden") cost.compute *= 120;
    if (kind == "needles" || kind == "split") cost.compute *= 60;
    if (kind == "nonfinite") cost.compute *= 10;
    cost.compile = compileCost(check, device);
    return cost;
}

double patienceFor(double cost) {
    return std::clamp(cost / ordinaryCost, 1.0, 100.0);
}

} // namespace vkattn::conform
