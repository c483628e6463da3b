// Which devices there are to test. Drivers crash and hang while they are listed too, so that is
// done in a process of its own; and where one of several drivers breaks the list, by each driver
// alone.
#pragma once

#include "conform/processes/worker.hpp"
#include "conform/report/report.hpp"

namespace vkattn::conform {

struct DeviceTask {
    uint32_t number = 0; // what --device takes
    uint32_t index = 0;  // in its environment
    Environment environment;
    DeviceFacts facts;
    // Of a driver that could not be asked; facts have a name for it and no more.
    std::string problem;
};

struct DeviceList {
    std::vector<DeviceTask> devices;
    std::string whyEmpty;
};

[[nodiscard]] DeviceList findDevices(double patienceSeconds);

// Those that the texts name, each an index, a name, or a part that fits the names of one kind of
// device; all where there are no texts. Throws Failure with the list where one names none, or
// several kinds.
[[nodiscard]] std::vector<DeviceTask> chooseDevices(const std::vector<DeviceTask> &devices, const std::vector<std::string> &wanted);

} // namespace vkattn::conform
