// The command line, checked.
#pragma once

#include "program/options/device_options.hpp"

namespace train {

struct Arguments : vkattn::program::DeviceOptions {
    uint32_t steps = 300, every = 1;
    uint64_t seed = 1;
    double dropout = 0;
    std::string checkpoint, curve;     // files; empty: none
    std::optional<double> minAccuracy; // in percent
};

// Returns false where help has been printed. Throws Failure where an option's value is wrong.
[[nodiscard]] bool parseArguments(int argc, const char *const *argv, Arguments &out);

} // namespace train
