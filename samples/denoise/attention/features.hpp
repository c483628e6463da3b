// What pixels of a rendered picture are compared by, and how precisely each pixel wants each
// feature to agree: 1 / (2 h^2) for a tolerance h. Since the tolerance belongs to the query, it may
// differ from pixel to pixel (see tile_attention.hpp).
#pragma once

#include "render/path_tracer.hpp"

namespace denoise {

// Depth and normal are two groups, of 1 and 3 channels. They carry next to no noise, and tell
// surfaces apart however few the samples are.
struct Geometry {
    Image features;
    Image precision;
};
[[nodiscard]] Geometry geometryFeatures(const Layer &layer, float reachPixels, float normalTolerance);

// The same features with one tolerance of each for all pixels. Depths count by their logarithm, so
// that the tolerance is a share.
[[nodiscard]] Geometry evenGeometryFeatures(const Layer &layer, float depthTolerance, float normalTolerance);

// Brightness and warmth of `light` are one group of 2 channels. Brightness is logarithmic, because
// the eye sees ratios.
[[nodiscard]] Image guideFeatures(const Image &light);

// `light` has 4 channels. The last one is a variance, of which `share` is left. Brightness may
// differ by noiseTolerance standard deviations of that variance, and in any case by `floor`.
[[nodiscard]] Image guidePrecision(const Image &light, float share, float noiseTolerance, float floor);

// Returns a precision that is the same for all pixels.
[[nodiscard]] Image evenPrecision(int width, int height, float tolerance);

// Appends the channels of b to those of a.
[[nodiscard]] Image join(const Image &a, const Image &b);

[[nodiscard]] Image channel(const Image &image, int index);

// Averages blocks of step x step pixels by weight.
[[nodiscard]] Image shrink(const Image &image, const Image &weight, int step);

// Returns the weight of each such block: 0 where all its pixels weigh nothing.
[[nodiscard]] Image shrinkWeight(const Image &weight, int step);

} // namespace denoise
