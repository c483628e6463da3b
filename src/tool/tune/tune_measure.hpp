// Measures the candidates of `vkattn tune` on a device.
#pragma once

#include "tool/tune/tune_candidates.hpp"

#include <vkattn/runtime.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace vkattn::tool {

using TuneClock = std::chrono::steady_clock;

struct TuneResult {
    std::optional<TuneTile> tile; // empty: the built-in row
    std::string discarded;        // why it was; empty: it was measured
    double compileSeconds = 0;    // what the first run took longer than the next
    double milliseconds = 0;      // median, summed over the case's problems; 0: not measured
    uint32_t samples = 0;
    bool chosen = false;
};

struct TuneReport {
    TuneCase of;
    std::string skipped;             // why nothing was measured; empty: something was
    std::string problems;            // "1x8x512x512 D64 f32"
    std::string builtIn;             // what the built-in row is
    double flops = 0;                // of all problems together
    std::vector<TuneResult> results; // the built-in row first
    size_t untried = 0;              // candidates that there was no time for
    size_t tooSlow = 0;              // candidates that were expected to compile for too long

    [[nodiscard]] const TuneResult &chosen() const;
    [[nodiscard]] double gflops(const TuneResult &result) const { return flops / result.milliseconds * 1e-6; }
    [[nodiscard]] double speed(const TuneResult &result) const {
        return results.front().milliseconds / result.milliseconds;
    } // 1: as built in
};

// Ends soon after `deadline`. Throws Failure where the built-in row itself cannot be run or
// computes wrongly.
[[nodiscard]] TuneReport measureTiles(const DeviceInfo &device, const TuneCase &of, TuneClock::time_point deadline,
                                      const std::function<void(const std::string &)> &progress);

} // namespace vkattn::tool
