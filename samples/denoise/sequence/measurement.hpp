// The figures of a camera move: of each frame and method, their medians and means.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace denoise {

struct FrameFigures {
    std::optional<double> deviceMilliseconds; // of attention alone
    std::optional<double> filterMilliseconds; // the denoiser whole, on the wall's clock
    std::optional<double> frameMilliseconds;  // rendering and the denoiser
    std::optional<double> psnr, ssim;         // against the reference
    std::optional<double> flicker;            // from the frame before: none for the first
};

struct MethodFigures {
    std::string name;
    std::vector<FrameFigures> frames;
};

// Returns nothing where no frame has the figure.
[[nodiscard]] std::optional<double> mean(const std::vector<FrameFigures> &frames, std::optional<double> FrameFigures::*figure);
// The same of the middle one, or of the two in the middle.
[[nodiscard]] std::optional<double> median(const std::vector<FrameFigures> &frames, std::optional<double> FrameFigures::*figure);

// Returns a table of the methods: medians of times, in which the first frame takes no part where
// there are others (it compiles pipelines and is verified), and means of the rest.
[[nodiscard]] std::string table(const std::vector<MethodFigures> &methods);

// Returns a line for each frame and method.
[[nodiscard]] std::string csv(const std::vector<MethodFigures> &methods);

} // namespace denoise
