// What a check is expected to take: for the time that is left, and for how long a driver may be
// silent. In units of a small check on a device of type CPU, about 2 ms.
#pragma once

#include "conform/checks/check.hpp"

namespace vkattn::conform {

[[nodiscard]] double computeCost(const Check &check); // and verify, above 0
// Of pipelines, where no check before has compiled them: by what the planner says of the tiles that
// the check runs with.
[[nodiscard]] double compileCost(const Check &check, const DeviceInfo &device);
[[nodiscard]] inline double costOf(const Check &check, const DeviceInfo &device) {
    return computeCost(check) + compileCost(check, device);
}

// How many times --case-timeout a check of this cost may take: 1 for most, 100 at most.
[[nodiscard]] double patienceFor(double cost);

} // namespace vkattn::conform
