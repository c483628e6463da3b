// The flash kernels on matrix units: what they need of a device and a problem, and how they lay out
// a workgroup. The rest of a plan is as in flash_plan.cpp.
#pragma once

#include "core/plan/kernel.hpp"

namespace vkattn::coopmat {

// Members of the kernels' rows in the table (core/plan/kernel.hpp).
[[nodiscard]] vkattn_result supported(const Kernel &, const PlanLimits &, vkattn_diagnostic *why);
// UNSUPPORTED where a program makes probabilities what no rounding to the inputs' type is known to hold.
[[nodiscard]] vkattn_result checkWeighing(const Problem &, const char *kernel, vkattn_diagnostic *why);
[[nodiscard]] WeightRounding rounding(const Plan &);
[[nodiscard]] bool suits(const Problem &, const FlashTuning &);
void explain(const Plan &, vkattn_explanation &out);
void whyChosen(const Problem &, const FlashTuning &, char *text, size_t size);
[[nodiscard]] const char *whyNotChosen(const Plan &chosen, const FlashTuning &);
// Where AUTO never takes the kernel.
[[nodiscard]] const char *whyNeverChosen(const Plan &chosen, const FlashTuning &);

// Sets shape.matrix and shape.tile. UNSUPPORTED with the reason.
[[nodiscard]] vkattn_result chooseMatrices(const Kernel &, const Problem &, const PlanLimits &, FlashShape &shape, vkattn_diagnostic *why);
[[nodiscard]] PipelineKey pipelineKey(const Plan &);

} // namespace vkattn::coopmat
