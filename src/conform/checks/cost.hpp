// What a check is expected to take: for the time that is left, and for how long a driver may be silent.
#pragma once

#include "conform/checks/check.hpp"

namespace vkattn::conform {

// In units of a small check on a device of type CPU, about 2 ms.
struct Cost {
    double compute = 1; // and verify, above 0
    double compile = 0; // of pipelines, where no check before has compiled them
    [[nodiscard]] double both() const { return compute + compile; }
};
[[nodiscard]] Cost costOf(const Check &check, const DeviceInfo &device);

// How many times --case-timeout a check of this cost may take: 1 for most, 100 at most.
[[nodiscard]] double patienceFor(double cost);

} // namespace vkattn::conform
