// How alike two pictures of one size are.
#pragma once

#include "picture/picture.hpp"

namespace denoise {

// Returns the peak signal-to-noise ratio in decibels, over all channels; infinite for equal
// pictures.
[[nodiscard]] double psnr(const Picture &a, const Picture &b);

// The side of the window that SSIM looks through: smaller pictures have none.
constexpr int ssimWindow = 11;

// Returns the structural similarity (Wang, Bovik, Sheikh and Simoncelli, "Image Quality
// Assessment: From Error Visibility to Structural Similarity", 2004), with the constants of that
// paper: on luma (Rec. 601), through a Gaussian of standard deviation 1.5 over 11x11 pixels, K1 =
// 0.01, K2 = 0.03, the mean over all windows that lie within the picture. 1 for equal pictures.
// Both sides of the pictures have at least ssimWindow pixels.
[[nodiscard]] double ssim(const Picture &a, const Picture &b);

} // namespace denoise
