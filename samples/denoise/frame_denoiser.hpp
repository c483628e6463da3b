// Cleans a path-traced frame by attention.
#pragma once

#include "path_tracer.hpp"
#include "tile_attention.hpp"

namespace denoise {

// False: attention.error() says why.
[[nodiscard]] bool denoiseFrame(const Frame &frame, TileAttention &attention, Image &out);

} // namespace denoise
