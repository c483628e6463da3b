// The devices that there are to test. Drivers crash and hang while they are listed too: a process
// of its own lists them. Where one of several drivers breaks the list, each driver lists its
// devices alone.
#pragma once

#include "conform/processes/worker.hpp"
#include "conform/report/report.hpp"

namespace vkattn::conform {

struct DeviceTask {
    uint32_t number = 0; // the number that --device takes
    uint32_t index = 0;  // the index in the task's environment
    Environment environment;
    DeviceFacts facts;
    // The problem of a driver that could not be asked; the facts then have its name and no more.
    std::string problem;
};

struct DeviceList {
    std::vector<DeviceTask> devices;
    std::string whyEmpty;
};

[[nodiscard]] DeviceList findDevices(double patienceSeconds);

// Returns the devices that the texts name, each an index, a name, or a part that fits the names of
// one kind of device. Returns all devices where there are no texts. Throws Failure with the list
// where a text names none, or several kinds.
[[nodiscard]] std::vector<DeviceTask> chooseDevices(const std::vector<DeviceTask> &devices, const std::vector<std::string> &wanted);

} // namespace vkattn::conform
