// How much a sequence changes beyond what the camera's motion explains: the warping error of video
// (Lai et al., "Learning Blind Video Temporal Consistency", 2018), with the motion known from the
// scene instead of estimated from the pictures.
#pragma once

#include "picture/picture.hpp"
#include "render/scene.hpp"

namespace denoise {

// Where what each pixel of a frame shows was in the frame before: 2 channels, in pixels from the
// upper left corner. Below 0 where that is not known: behind mirrors and glass, past the picture's
// edges, hidden in the frame before, or in the open.
[[nodiscard]] Image motionBetween(const Scene &before, const Scene &now, int width, int height);

// Returns the mean absolute difference, in levels of 255, between a frame and the frame before
// moved onto it (bilinearly), over all channels of the pixels whose motion is known; 0 where no
// motion is.
[[nodiscard]] double flicker(const Picture &before, const Picture &now, const Image &motion);

} // namespace denoise
