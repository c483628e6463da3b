// Non-local means of an ordinary picture, with no data but its pixels.
#pragma once

#include "attention/tile_attention.hpp"

namespace denoise {

// Standard deviations of the noise, in the units of the picture, from the second differences of
// green (Immerkaer 1996; by their median, which edges and texture hardly move).
struct NoiseEstimate {
    float typical = 0; // over the whole picture
    // The noise as 1 channel: shadows of a photograph, and the corners of a rendering, are noisier
    // than the rest.
    Image local;
};
[[nodiscard]] NoiseEstimate estimateNoise(const Image &picture);

// With strength 1 the noise is removed as estimated; more removes more. Returns false where
// attention fails; attention.error() says why.
[[nodiscard]] bool denoisePhoto(const Image &picture, const NoiseEstimate &noise, float strength, TileAttention &attention, Image &out);

} // namespace denoise
