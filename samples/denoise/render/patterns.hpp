// Procedural colours: detail that a denoiser must not smear.
#pragma once

#include "render/intersector.hpp"

namespace denoise {

// Returns the share of light, by colour, that a matte surface sends back.
[[nodiscard]] Vec3 albedo(const Hit &hit);

} // namespace denoise
