// The host's callbacks. Without them the library is silent, and a callback costs the test of a
// pointer.
#pragma once

#include "util/diagnostic.hpp"
#include "vkattn/vkattn.h"

#include <cstdarg>
#include <cstdio>

namespace vkattn {

using ZoneCallback = decltype(vkattn_host::zone);

struct Log {
    decltype(vkattn_host::log) callback = nullptr;
    void *userData = nullptr;

    void write(vkattn_log_level level, const char *message) const {
        if (callback) callback(userData, level, message);
    }
    VKATTN_PRINTF(2, 3) void info(const char *format, ...) const {
        va_list arguments;
        va_start(arguments, format);
        format_(VKATTN_LOG_INFO, format, arguments);
        va_end(arguments);
    }
    VKATTN_PRINTF(2, 3) void warning(const char *format, ...) const {
        va_list arguments;
        va_start(arguments, format);
        format_(VKATTN_LOG_WARNING, format, arguments);
        va_end(arguments);
    }

  private:
    void format_(vkattn_log_level level, const char *format, va_list arguments) const {
        if (!callback) return;
        char text[508];
        std::vsnprintf(text, sizeof text, format, arguments);
        callback(userData, level, text);
    }
};

// One call of the API. The message of a call that fails reaches the log, even where the caller
// passed no diagnostic.
class LoggedCall {
  public:
    LoggedCall(const Log *log, vkattn_diagnostic *&why) : log_(log && log->callback ? log : nullptr) {
        if (log_ && !why) {
            own_.message[0] = '\0';
            why = &own_;
        }
        why_ = why;
    }
    LoggedCall(const LoggedCall &) = delete;
    LoggedCall &operator=(const LoggedCall &) = delete;
    [[nodiscard]] vkattn_result result(vkattn_result r) const {
        if (log_ && r < 0) log_->write(VKATTN_LOG_ERROR, why_->message);
        return r;
    }

  private:
    const Log *log_;
    const vkattn_diagnostic *why_;
    vkattn_diagnostic own_; // not initialised: without a log the member must cost nothing
};

} // namespace vkattn
