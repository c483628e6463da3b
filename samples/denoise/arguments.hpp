// The command line, checked.
#pragma once

#include "program/options/device_options.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace denoise {

struct Arguments : vkattn::program::DeviceChoice {
    std::string out = "denoise-pictures";
    int width = 384, height = 256;
    int samples = 4, referenceSamples = 128; // per pixel
    uint32_t seed = 1;
    unsigned threads = 0; // one per core; parseArguments replaces 0
    std::string image;    // empty: render the scene
    std::string compare;
    float strength = 1;
    std::optional<double> minGain; // decibels
    int frames = 0;                // 0: one picture
    bool still = false;            // the camera stands still
    bool search = false;           // for tolerances, instead of measuring
    int animateEvery = 1;          // frames
};

// Returns the exit status where the program is to end here (help, or a mistake that has been
// reported), else nothing.
[[nodiscard]] std::optional<int> parseArguments(int argc, char **argv, Arguments &out);

} // namespace denoise
