// Tests one device through child processes. Where a child crashes or hangs, that is the result of
// the check that ran, and another child goes on with the next one.
#pragma once

#include "conform/processes/devices.hpp"
#include "conform/processes/progress.hpp"

namespace vkattn::conform {

constexpr uint32_t maxRestarts = 8; // restarts for a device

struct RunSettings {
    Selection plan;
    // The checks to run, made by resultFor(); empty: those of the plan or soak.
    std::vector<CheckResult> replays;
    std::optional<double> soakSeconds, timeLimitSeconds;
    [[nodiscard]] const std::optional<double> &limitSeconds() const { return soakSeconds ? soakSeconds : timeLimitSeconds; }
    double caseTimeoutSeconds = 120;
    bool failFast = false;
};

// Tests the device. Throws only where no process can be started. `label`: "device 1 of 2".
[[nodiscard]] DeviceReport testDevice(const DeviceTask &task, const RunSettings &settings, const std::string &label, Progress &progress);

// Returns the checks that testDevice() would run, marked as not run.
[[nodiscard]] DeviceReport planDevice(const DeviceTask &task, const RunSettings &settings, Progress &progress);

} // namespace vkattn::conform
