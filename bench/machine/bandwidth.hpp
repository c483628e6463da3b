// The best rates of a device's memory and arithmetic, by themselves: ceilings for other programs'
// figures too.
#pragma once

#include "machine/machine.hpp"

#include <vkattn/runtime.hpp>

#include <string>
#include <vector>

namespace vkattn::bench {

struct Ceiling {
    std::string what;         // "copy", "read", "fma"
    uint64_t bufferBytes = 0; // 0: none
    // Bytes (for a copy both those read and those written), or floating-point operations.
    double perSecond = 0;
};

[[nodiscard]] std::vector<Ceiling> measureCeilings(const DeviceInfo &device); // throws Failure
void printCeilings(const Machine &machine, const std::vector<Ceiling> &ceilings);
[[nodiscard]] std::string ceilingCsvHeader();
[[nodiscard]] std::string ceilingCsvRow(const Machine &machine, const Ceiling &ceiling);

} // namespace vkattn::bench
