// Listens to a child process until it has said its last word, has crashed, or is given up.
#pragma once

#include "conform/processes/child_process.hpp"
#include "conform/processes/messages.hpp"

#include <functional>
#include <optional>

namespace vkattn::conform {

struct Stopped {
    enum class How { end, lost, failed, crash, hang, interrupted, late };
    How how = How::end;
    std::string why;    // of a crash or a hang, with what the driver printed last; of a failure
    bool stuck = false; // the process could not be ended
};

struct Watch {
    using Clock = std::chrono::steady_clock;
    // false: makes no sense now, which is answered as a crash is
    std::function<bool(const Message &)> onMessage;
    // Seconds without a message until that is a hang: of the process's own time (own_time.hpp), so
    // that a busy machine makes no hangs.
    std::function<double()> patience;
    std::function<void()> tick; // a few times a second; may be empty
    std::optional<Clock::time_point> deadline;
};

[[nodiscard]] Stopped follow(ChildProcess &child, const Watch &watch);

// "0.5 s", "120 s".
[[nodiscard]] std::string secondsText(double seconds);

} // namespace vkattn::conform
