// The bindings of one call, by role, after the checks that need no Vulkan.
#pragma once

#include "core/plan/schedule.hpp"
#include "vkattn/vkattn.h"

namespace vkattn {

struct Bindings {
    vkattn_binding byRole[VKATTN_ROLE_LIMIT];
};

[[nodiscard]] vkattn_result collectBindings(const Schedule &schedule, const vkattn_record &record, Bindings &out, vkattn_diagnostic *why);

} // namespace vkattn
