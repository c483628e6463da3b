// The flash kernels on matrix units: what they need of a device and a problem, and how they lay out a workgroup. The rest of a plan is as
// in flash_plan.cpp.
#pragma once

#include "core/plan/plan.hpp"

namespace vkattn {

[[nodiscard]] constexpr bool onMatrixUnits(vkattn_kernel kernel) {
    return kernel == VKATTN_KERNEL_FLASH_COOPMAT || kernel == VKATTN_KERNEL_FLASH_COOPMAT2;
}

// Whether a device with these caps, and this build, can run the kernel at all; UNSUPPORTED with the reason otherwise. Where it takes some
// input types only, OK and `why` says which.
[[nodiscard]] vkattn_result coopmatSupported(vkattn_kernel kernel, const PlanLimits &limits, vkattn_diagnostic *why);
// Sets shape.matrix and shape.tile. UNSUPPORTED with the reason.
[[nodiscard]] vkattn_result chooseMatrices(vkattn_kernel kernel, const Problem &problem, const PlanLimits &limits, FlashShape &shape,
                                           vkattn_diagnostic *why);
// What weights may be moved by when they are rounded to the type of the inputs: relatively, and absolutely where they are tiny. 0 for plans
// of the other kernels.
struct WeightRounding {
    float unit, floor;
};
[[nodiscard]] WeightRounding weightRounding(const Plan &plan);
[[nodiscard]] PipelineKey coopmatKey(const Plan &plan);

} // namespace vkattn
