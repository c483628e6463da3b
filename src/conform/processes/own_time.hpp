// The time that a process had for itself: the wall clock, less the time in which the machine did
// not let the process run. A process that a busy machine holds up is slow and does not hang. A
// process that sleeps, or computes without end, hangs.
#pragma once

#include <chrono>
#include <map>
#include <optional>

namespace vkattn::conform {

// The time of one thread so far, in seconds.
struct ThreadTime {
    double running = 0; // on a processor
    double waiting = 0; // ready to run while other threads had the processors
};

// The times of all threads of a process at one moment.
struct ProcessTime {
    std::map<int, ThreadTime> threads; // by thread id
    // true: a thread is ready to run, or stopped by a signal or a debugger, and does not sleep.
    // `waiting` grows only once a thread runs again.
    bool awake = false;
};

// Returns the times of another process. Returns nothing where the process is gone, or the system
// does not tell (Linux does).
[[nodiscard]] std::optional<ProcessTime> processTime(int process);

// Returns the part of `wall` seconds between two moments that the process had for itself: it ran,
// or slept because it wanted to.
[[nodiscard]] double ownSeconds(const ProcessTime &before, const ProcessTime &after, double wall);

// Adds up the own time of a process. Where the system does not tell, all time is its own.
class OwnTime {
  public:
    explicit OwnTime(int process);
    void restart();
    // Returns the seconds since restart(). Ask often: a process is known to be awake only at the
    // moments of asking.
    [[nodiscard]] double seconds();

  private:
    using Clock = std::chrono::steady_clock;
    int process_;
    double seconds_ = 0;
    Clock::time_point asked_;
    std::optional<ProcessTime> last_;
};

} // namespace vkattn::conform
