// Cleans a path-traced frame by averages over windows: by attention, or by the cross-bilateral
// filter that it is compared with.
#pragma once

#include "attention/window_filter.hpp"
#include "render/path_tracer.hpp"

namespace denoise {

// The work of one head in one pass.
struct HeadSettings {
    int step;              // see FilterHead
    float reachPixels;     // standard deviation of the weights over the distance in pixels
    float normalTolerance; // indirect light changes slowly as a surface turns, direct light faster
    float noiseTolerance;  // see guidePrecision; no part in a pass without guide
    float guideFloor;      // of the logarithm of brightness
    float depthTolerance;  // the share by which depths may differ, where tolerances are even
};

struct FilterPass {
    TileShape shape;
    bool guided; // compares the light that the pass before has found, besides the geometry
    HeadSettings direct, indirect;
};

struct FrameFilter {
    // Tolerances are of each pixel, from the slope of its surface and what is known of its noise;
    // or even: one of each feature for all pixels, as the sigmas of a bilateral filter.
    bool tolerancesOfPixels;
    std::vector<FilterPass> passes;
};

[[nodiscard]] FrameFilter attentionFilter();
// The same passes, windows and features, with even tolerances.
[[nodiscard]] FrameFilter bilateralFilter();
// The textbook's: one pass over the widest of those windows, guided by the geometry alone.
[[nodiscard]] FrameFilter plainBilateralFilter();

// Runs of the filter that a frame takes.
[[nodiscard]] int runsOfFrame(const FrameFilter &settings);

// Returns false where the filter fails; filter.error() says why.
[[nodiscard]] bool denoiseFrame(const Frame &frame, const FrameFilter &settings, WindowFilter &filter, Image &out);

} // namespace denoise
