// The progress of `vkattn conform`, on stderr: one line that is redrawn on a terminal, else a line
// now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace vkattn::conform {

struct ProgressState {
    std::string device; // e.g. "device 1 of 2: llvmpipe"
    // The work where no checks are counted, e.g. "opening the device"; empty while checks are
    // counted.
    std::string doing;
    uint64_t done = 0;                   // checks
    uint64_t all = 0;                    // 0: unknown
    double costDone = 0;                 // in the plan's unit of cost
    double costAll = 0;                  // in the plan's unit of cost
    uint64_t failures = 0;               // so far
    double seconds = 0;                  // since this device began
    double checkSeconds = 0;             // since the device's first check
    std::optional<double> secondsAtMost; // from now on: the rest of a soak, or of the time limit
};

// Returns the seconds that are left, estimated from the checks that are done; nothing before some
// are.
[[nodiscard]] std::optional<double> timeLeft(const ProgressState &state);
// Returns a line of at most `columns` characters.
[[nodiscard]] std::string progressLine(const ProgressState &state, uint32_t columns);

class Progress {
  public:
    Progress();
    ~Progress(); // removes the line from the terminal
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    void show(const ProgressState &state); // may be called at any rate
    void print(const std::string &text);   // prints a line of its own, which stays

  private:
    void clear();

    using Clock = std::chrono::steady_clock;
    bool terminal_, drawn_ = false;
    std::optional<Clock::time_point> shown_;
};

} // namespace vkattn::conform
