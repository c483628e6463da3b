// Cleans a path-traced frame by attention.
#pragma once

#include "attention/tile_attention.hpp"
#include "render/path_tracer.hpp"

namespace denoise {

// Returns false where attention fails; attention.error() says why.
[[nodiscard]] bool denoiseFrame(const Frame &frame, TileAttention &attention, Image &out);

} // namespace denoise
