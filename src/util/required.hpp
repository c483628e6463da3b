// Arguments that must not be NULL. The message names the first one that is NULL.
#pragma once

#include "util/diagnostic.hpp"

#include <initializer_list>

namespace vkattn {

struct Required {
    bool given;
    const char *name;
    template <class Handle> Required(Handle handle, const char *called) : given(handle != Handle{}), name(called) {}
};

[[nodiscard]] inline vkattn_result requireAll(std::initializer_list<Required> all, vkattn_diagnostic *why) {
    for (const Required &each : all)
        if (!each.given) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "%s is NULL; it is required", each.name);
    return VKATTN_OK;
}

} // namespace vkattn
