// The search for the smallest case that still crashes, hangs or loses the device. Each attempt
// needs a process of its own.
#pragma once

#include "conform/processes/devices.hpp"
#include "conform/processes/follow.hpp"

namespace vkattn::conform {

struct LoneChecks {
    const DeviceTask &task;
    const Selection &plan;
    double patienceSeconds; // for one attempt
    double secondsLeft;     // for all attempts
    std::optional<Watch::Clock::time_point> deadline;
    std::function<void()> tick;
};

// Sets check.smallest. Where the check does not fail alone, adds that to the reason.
void shrinkInProcesses(const LoneChecks &lone, CheckResult &check);

} // namespace vkattn::conform
