// A camera move: rendered, denoised by attention and by cross-bilateral filters, and measured.
#pragma once

#include "arguments.hpp"
#include "attention/tile_attention.hpp"

namespace denoise {

// Writes the frames' figures, a contact sheet and an animation into the folder of --out, and prints
// a table. Returns the exit status.
[[nodiscard]] int denoiseSequence(const Arguments &arguments, TileAttention &attention, const vkattn::Runtime &runtime);

} // namespace denoise
