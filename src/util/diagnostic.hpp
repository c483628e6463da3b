// Writes the reason of a failure where it is detected, into memory that the caller owns.
#pragma once

#include "vkattn/problem.h"

#include <cstdarg>
#include <cstdio>

namespace vkattn {

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
inline vkattn_result
failVulkan(vkattn_diagnostic *why, vkattn_result result, int32_t vkResult, const char *format, ...) {
    if (why) {
        why->vkResult = vkResult;
        va_list args;
        va_start(args, format);
        std::vsnprintf(why->message, sizeof why->message, format, args);
        va_end(args);
    }
    return result;
}

template <class... Args> [[nodiscard]] vkattn_result fail(vkattn_diagnostic *why, vkattn_result result, const char *format, Args... args) {
    return failVulkan(why, result, 0, format, args...);
}

} // namespace vkattn
