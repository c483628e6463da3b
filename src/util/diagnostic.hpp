// Writes the reason of a failure where it is detected, into memory that the caller owns.
#pragma once

#include "vkattn/problem.h"

#include <cstdarg>
#include <cstdio>

namespace vkattn {

#if defined(__GNUC__)
#define VKATTN_PRINTF(text, arguments) __attribute__((format(printf, text, arguments)))
#else
#define VKATTN_PRINTF(text, arguments)
#endif

inline void writeReason(vkattn_diagnostic *why, int32_t vkResult, const char *format, va_list arguments) {
    if (!why) return;
    why->vkResult = vkResult;
    std::vsnprintf(why->message, sizeof why->message, format, arguments);
}

// The result of most failures.
inline constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;

// Both return `result`.
[[nodiscard]] VKATTN_PRINTF(3, 4) inline vkattn_result fail(vkattn_diagnostic *why, vkattn_result result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    writeReason(why, 0, format, arguments);
    va_end(arguments);
    return result;
}

[[nodiscard]] VKATTN_PRINTF(4, 5) inline vkattn_result
    failVulkan(vkattn_diagnostic *why, vkattn_result result, int32_t vkResult, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    writeReason(why, vkResult, format, arguments);
    va_end(arguments);
    return result;
}

} // namespace vkattn
