// Tests one device through child processes, which may crash or hang: then that is the result of the
// check that ran, and another child goes on with the next one.
#pragma once

#include "conform/processes/devices.hpp"
#include "conform/processes/progress.hpp"

namespace vkattn::conform {

constexpr uint32_t maxRestarts = 8; // of a device

struct RunSettings {
    Selection plan;
    std::vector<CheckResult> replays; // resultFor() them; empty: by plan or soak
    std::optional<double> soakSeconds, timeLimitSeconds;
    [[nodiscard]] const std::optional<double> &limitSeconds() const { return soakSeconds ? soakSeconds : timeLimitSeconds; }
    double caseTimeoutSeconds = 120;
    bool failFast = false;
};

// Never throws but where no process can be started. `label`: "device 1 of 2".
[[nodiscard]] DeviceReport testDevice(const DeviceTask &task, const RunSettings &settings, const std::string &label, Progress &progress);

// The checks that testDevice() would run, not run.
[[nodiscard]] DeviceReport planDevice(const DeviceTask &task, const RunSettings &settings, Progress &progress);

} // namespace vkattn::conform
