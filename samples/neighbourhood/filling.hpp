// Pixels that are missing, filled by 2-D neighbourhood attention: every pixel is a token, and sees the known pixels of a square around
// itself that look like it.
#pragma once

#include "picture/image.hpp"

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace neighbourhood {

struct Settings {
    uint32_t size = 15;     // of the neighbourhood, odd
    uint32_t patch = 5;     // side of what two pixels are compared by, odd
    uint32_t rounds = 10;   // each compares by what the one before has filled in
    float likeness = 0.03f; // difference of patches, a channel of 0 to 1, that halves a weight or so
    float distance = 2.5f;  // pixels apart, likewise
};

// 1 for each pixel that is known.
using Known = std::vector<uint8_t>;

// Known pixels as they are, each other one as the mean of those around it by a Gaussian that is as wide as it must be: what the attention
// begins with, and what it is compared with.
[[nodiscard]] denoise::Image interpolated(const denoise::Image &damaged, const Known &known);

// Fills in a picture whose extents are at least the size. `milliseconds`: of all rounds. Returns an empty image with the reason in
// `error` where nothing computes the attention.
[[nodiscard]] denoise::Image filled(vkattn::Runtime &runtime, const denoise::Image &start, const Known &known, const Settings &settings,
                                    double &milliseconds, std::string &error);

} // namespace neighbourhood
