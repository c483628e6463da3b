// The command line, checked.
#pragma once

#include "program/options/device_options.hpp"
#include "text/sampler.hpp"

#include <vector>

namespace story {

struct Arguments : vkattn::program::DeviceOptions {
    std::string model, tokenizer, prompt;
    uint32_t steps = 0; // 0: the model's length
    Sampling sampling;
    vkattn_dtype kvType = VKATTN_F32;
    bool hadamard = false;        // keys and values are rotated before kvType rounds them
    std::string inspect;          // a folder; empty: nothing is kept
    std::vector<uint32_t> layers; // empty: all
};

// Returns false where help has been printed. Throws Failure where an option's value is wrong.
[[nodiscard]] bool parseArguments(int argc, const char *const *argv, Arguments &out);

} // namespace story
