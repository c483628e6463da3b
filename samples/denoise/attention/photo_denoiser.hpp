// Non-local means of an ordinary picture, of which nothing is known but its pixels.
#pragma once

#include "attention/tile_attention.hpp"

namespace denoise {

// Standard deviations of the noise, in the units of the picture, from the second differences of
// green (Immerkaer 1996; by their median, which edges and texture hardly move).
struct NoiseEstimate {
    float typical = 0; // over the whole picture
    // 1 channel: shadows of a photograph, and the corners of a rendering, are noisier than the rest
    Image local;
};
[[nodiscard]] NoiseEstimate estimateNoise(const Image &picture);

// strength 1 removes noise as estimated, more removes more. False: attention.error() says why.
[[nodiscard]] bool denoisePhoto(const Image &picture, const NoiseEstimate &noise, float strength, TileAttention &attention, Image &out);

} // namespace denoise
