// The bindings of one call, by role, after the checks that need no Vulkan.
#pragma once

#include "core/plan/plan.hpp"

namespace vkattn {

struct Bindings {
    vkattn_binding byRole[VKATTN_ROLE_LIMIT];
};

[[nodiscard]] vkattn_result collectBindings(const Plan &plan, const vkattn_record &record, Bindings &out, vkattn_diagnostic *why);

} // namespace vkattn
