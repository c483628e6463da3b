// The work of the child processes of `vkattn conform`: everything that touches Vulkan.
#pragma once

#include "conform/processes/child_process.hpp"

#include "conform/checks/selection.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vkattn::conform {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct WorkerOrders {
    uint32_t device = 0; // index of the device
    std::string name;    // name that the device must have
    Environment environment;
    Selection plan;
    enum class What {
        plan,    // tell which checks would run
        checks,  // make a plan, tell it, and run it
        replays, // run the replays
        soak,    // run random checks without end
    } what = What::checks;
    std::vector<std::string> replays;
    uint64_t first = 0; // first of the replays, or of the soak
    bool failFast = false, time = false;
    double shrinkSeconds = 0; // seconds for all failures together
};

// Lists the devices that there are, by messages `device` or `noDevice`, and `end`.
void listDevices(const Environment &environment, const ChildProcess::Channel &channel);

void work(const WorkerOrders &orders, const ChildProcess::Channel &channel);

// Returns whether the device is of no use any more to the process that had this outcome.
[[nodiscard]] bool hasLostDevice(const Finding &finding);

} // namespace vkattn::conform
