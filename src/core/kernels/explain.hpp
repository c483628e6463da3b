// vkattnExplain and vkattnExplainKernel without their argument checks.
#pragma once

#include "core/plan/kernel.hpp"

namespace vkattn {

[[nodiscard]] vkattn_result explainPlan(const Problem &problem, const PlanLimits &limits, vkattn_explanation &out, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result reasonOf(const Kernel &kernel, const Problem &problem, const PlanLimits &limits, vkattn_diagnostic *why);

} // namespace vkattn
