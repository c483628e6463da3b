// vkattnExplain without its argument checks.
#pragma once

#include "core/plan/plan.hpp"

namespace vkattn {

[[nodiscard]] vkattn_result explainPlan(const Problem &problem, const PlanLimits &limits, vkattn_explanation &out, vkattn_diagnostic *why);

} // namespace vkattn
