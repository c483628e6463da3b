// What runs in the child processes of `vkattn conform`: all that touches Vulkan.
#pragma once

#include "conform/processes/child_process.hpp"

#include "conform/checks/selection.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vkattn::conform {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct WorkerOrders {
    uint32_t device = 0; // index
    std::string name;    // that it must have
    Environment environment;
    Selection plan;
    enum class What {
        plan,    // tell what would be checked
        checks,  // make a plan, tell it, and run it
        replays, // run these
        soak,    // random checks, without end
    } what = What::checks;
    std::vector<std::string> replays;
    uint64_t first = 0; // of the replays, or of the soak
    bool failFast = false, time = false;
    double shrinkSeconds = 0; // for all failures together
};

// The devices that there are: messages `device`, or `noDevice`, and `end`.
void listDevices(const Environment &environment, const ChildProcess::Channel &channel);

void work(const WorkerOrders &orders, const ChildProcess::Channel &channel);

// Whether the device is of no use any more to the process that had this outcome.
[[nodiscard]] bool hasLostDevice(const Finding &finding);

} // namespace vkattn::conform
