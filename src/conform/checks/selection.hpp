// Which checks a device gets.
#pragma once

#include "conform/checks/check.hpp"

namespace vkattn::conform {

enum class Extent {
    quick,  // about a minute on a software driver
    normal, // about 10 minutes
};

struct Selection {
    Extent extent = Extent::normal;
    uint64_t seed = 0;
    // AUTO included where the planner's choice is to be checked; empty: all
    std::vector<vkattn_kernel> kernels;
};

struct Planned {
    Check check;
    double cost; // expected time, relative to the other checks of the plan; > 0
};

// The same for the same device, library and options. Kernels that the device cannot run have one
// check each, which says why.
[[nodiscard]] std::vector<Planned> planChecks(const DeviceInfo &device, const Selection &options);

// Random check `number` of a soak: any kind, kernel, limits and case; pipelines are bounded by
// drawing types, dims and layouts from a few.
[[nodiscard]] Check soakCheck(const DeviceInfo &device, const Selection &options, uint64_t number);

// Usual shapes, on every kernel that takes them.
[[nodiscard]] std::vector<Timing> timeKernels(DeviceUnderTest &device, Extent extent);

} // namespace vkattn::conform
