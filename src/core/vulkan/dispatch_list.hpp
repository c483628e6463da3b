// vkattnListDispatches without its argument checks.
#pragma once

#include "core/plan/plan.hpp"

#include <cstddef>

namespace vkattn {

// Fills in the fields that follow from the dispatches: the list and its size, kernel and workspace.
[[nodiscard]] vkattn_result writeDispatches(const Plan &plan, const Caps &caps, void *scratch, size_t scratchBytes,
                                            vkattn_dispatch_list &out, vkattn_diagnostic *why);

} // namespace vkattn
