// How far `vkattn conform` has come, on stderr: one line that is redrawn where that is a terminal,
// else a line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace vkattn::conform {

struct ProgressState {
    std::string device; // "device 1 of 2: llvmpipe"
    // Where no checks are counted: "opening the device"; empty while they are.
    std::string doing;
    uint64_t done = 0;                   // checks
    uint64_t all = 0;                    // 0: nobody knows
    double costDone = 0;                 // in the plan's unit
    double costAll = 0;                  // likewise
    uint64_t failures = 0;               // so far
    double seconds = 0;                  // since this device began
    double checkSeconds = 0;             // of these, those since its first check
    std::optional<double> secondsAtMost; // from now on: of a soak, or to the time limit
};

// Seconds, from what the checks that are done took; none before some are.
[[nodiscard]] std::optional<double> timeLeft(const ProgressState &state);
// At most `columns` wide.
[[nodiscard]] std::string progressLine(const ProgressState &state, uint32_t columns);

class Progress {
  public:
    Progress();
    ~Progress(); // removes the line
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    void show(const ProgressState &state); // as often as one likes
    void print(const std::string &text);   // a line of its own, which stays

  private:
    void clear();

    using Clock = std::chrono::steady_clock;
    bool terminal_, drawn_ = false;
    std::optional<Clock::time_point> shown_;
};

} // namespace vkattn::conform
