// The command line, checked.
#pragma once

#include "model/paged_model.hpp"
#include "program/options/device_options.hpp"

namespace serve {

struct Arguments : vkattn::program::DeviceChoice {
    std::string model, tokenizer, prompts; // prompts: a file, a line each; empty: some of the program's own
    std::string out;                       // a file for what requests were given; empty: none
    std::string system = "Once upon a time, there was a little girl named Lily.";
    Capacity capacity;
    uint32_t requests = 64, mostTokens = 64;
    uint32_t gap = 2;     // steps from an arrival to the next, on average
    double cancels = 0.1; // share of the requests
    uint32_t check = 0;   // requests that are run alone afterwards
    uint64_t seed = 1;
    bool json = false, quiet = false;
};

// Returns false where help has been printed. Throws Failure where an option's value is wrong.
[[nodiscard]] bool parseArguments(int argc, const char *const *argv, Arguments &out);

} // namespace serve
