// vkattnListDispatches without its argument checks.
#pragma once

#include "core/plan/caps.hpp"
#include "core/plan/schedule.hpp"

#include <cstddef>

namespace vkattn {

// Fills in the fields that follow from the dispatches: the list and its size, kernel and workspace.
[[nodiscard]] vkattn_result writeDispatches(const Schedule &schedule, const Caps &caps, void *scratch, size_t scratchBytes,
                                            vkattn_dispatch_list &out, vkattn_diagnostic *why);

} // namespace vkattn
