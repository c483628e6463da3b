#include "conform/checks/cost.hpp"

#include "conform/cases/base_case.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn::conform {
namespace {

// Two seconds: what the default of --case-timeout is more than enough for, sixty times over.
constexpr double ordinaryCost = 1000;
// Of a pipeline whose operations nobody estimates: with compilers for GPUs, which do not unroll
// into thousands of vectors, and where there is no plan.
constexpr double smallPipeline = 10, matrixPipeline = 2000;

bool onMatrixUnits(vkattn_kernel kernel) {
    return vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS;
}

// The operations of the pipeline that the check would compile, and how many the planner allows a
// tile of its own; 0 where there is no plan.
vkattn_explanation planOf(const Check &check, const DeviceInfo &device) {
    const RuntimeOptions options = optionsFor({}, *check.testLayout, check.limits, device.caps);
    vkattn_plan_options given{};
    given.structSize = sizeof given;
    given.maxWorkspaceBytes = options.maxWorkspaceBytes;
    given.tuning = options.tuning.data();
    given.tuningBytes = options.tuning.size();
    const vkattn_caps caps = options.capsLimit.value_or(device.caps);
    const vkattn_problem problem = descriptionOf(check.c);
    vkattn_explanation plan{};
    plan.structSize = sizeof plan;
    if (vkattnExplain(&caps, &given, &problem, &plan, nullptr) != VKATTN_OK) return {};
    return plan;
}

} // namespace

double computeCost(const Check &check) {
    const Case &c = check.c;
    const double tokens = static_cast<double>(std::max(c.queryTokens, 1u)) * std::max(c.keyTokens, 1u);
    double cost = 1 + tokens * c.heads * c.batch * (c.headDim + c.valueDim) / 2e6;
    const std::string_view kind = check.kind->name;
    if (kind == "hidden") cost *= 120;
    if (kind == "needles" || kind == "split") cost *= 60;
    if (kind == "nonfinite") cost *= 10;
    return cost;
}

double compileCost(const Check &check, const DeviceInfo &device) {
    if (device.type != DeviceType::cpu) return smallPipeline;
    if (onMatrixUnits(check.c.kernel)) return matrixPipeline;
    const vkattn_explanation plan = planOf(check, device);
    if (plan.compileOperations == 0 || plan.compileLimit == 0) return smallPipeline;
    // 1000 operations a second, and beyond what the planner takes by itself the square: the tiles
    // of test layouts are taken all the same.
    const auto operations = static_cast<double>(plan.compileOperations);
    return operations / 2 * std::max(1.0, operations / static_cast<double>(plan.compileLimit));
}

double patienceFor(double cost) {
    return std::clamp(cost / ordinaryCost, 1.0, 100.0);
}

} // namespace vkattn::conform
