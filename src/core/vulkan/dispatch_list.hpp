// vkattnDescribe without its argument checks.
#pragma once

#include "core/plan/plan.hpp"

#include <cstddef>

namespace vkattn {

[[nodiscard]] vkattn_result describePlan(const Plan &plan, const Caps &caps, void *scratch, size_t *scratchBytes,
                                         const vkattn_dispatch **dispatches, uint32_t *count, vkattn_diagnostic *why);

} // namespace vkattn
