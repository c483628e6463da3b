// Follows a child process until it has said its last word, has crashed, or is given up.
#pragma once

#include "conform/processes/child_process.hpp"
#include "conform/processes/messages.hpp"

#include <functional>
#include <optional>

namespace vkattn::conform {

struct Stopped {
    enum class How { end, lost, failed, crash, hang, interrupted, late };
    How how = How::end;
    // Reason of a crash or a hang, with the driver's last output; or of a failure.
    std::string why;
    bool stuck = false; // the process could not be ended
};

struct Watch {
    using Clock = std::chrono::steady_clock;
    // false: the message makes no sense now, which counts as a crash
    std::function<bool(const Message &)> onMessage;
    // Seconds without a message that count as a hang. They are seconds of the process's own time
    // (own_time.hpp), so that a busy machine makes no hangs.
    std::function<double()> patience;
    std::function<void()> tick; // called a few times a second; may be empty
    std::optional<Clock::time_point> deadline;
};

[[nodiscard]] Stopped follow(ChildProcess &child, const Watch &watch);

// Returns a text such as "0.5 s" or "120 s".
[[nodiscard]] std::string secondsText(double seconds);

} // namespace vkattn::conform
