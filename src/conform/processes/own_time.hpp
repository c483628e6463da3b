// How long a process had for itself: the wall clock, less the time in which the machine did not let
// it run. A process that a busy machine holds up is slow and does not hang; one that sleeps, or
// computes without end, hangs.
#pragma once

#include <chrono>
#include <map>
#include <optional>

namespace vkattn::conform {

// One thread so far, in seconds.
struct ThreadTime {
    double running = 0; // on a processor
    double waiting = 0; // ready to run, while other threads had the processors
};

// All threads of a process at one moment.
struct ProcessTime {
    std::map<int, ThreadTime> threads; // by thread id
    // A thread is ready to run, or stopped by a signal or a debugger: it does not sleep. `waiting`
    // grows only once a thread runs again.
    bool awake = false;
};

// Of another process. None where the system does not tell (it does on Linux), or the process is
// gone.
[[nodiscard]] std::optional<ProcessTime> processTime(int process);

// Of `wall` seconds between two moments those that the process had for itself: it ran, or slept
// because it wanted to.
[[nodiscard]] double ownSeconds(const ProcessTime &before, const ProcessTime &after, double wall);

// Adds up the own time of a process. Where the system does not tell, all time is its own.
class OwnTime {
  public:
    explicit OwnTime(int process);
    void restart();
    // Since restart(). To be asked often: whether a process is awake is known of the moments of
    // asking alone.
    [[nodiscard]] double seconds();

  private:
    using Clock = std::chrono::steady_clock;
    int process_;
    double seconds_ = 0;
    Clock::time_point asked_;
    std::optional<ProcessTime> last_;
};

} // namespace vkattn::conform
