// A search for the tolerances with which a filter does best: one after the other is doubled and
// halved for as long as that helps, then the same by smaller factors. The ratios between passes
// stay, and direct and indirect light have tolerances of their own.
#pragma once

#include "attention/frame_denoiser.hpp"

#include <functional>
#include <string>

namespace denoise {

struct SearchStep {
    const FrameFilter &filter;
    double score;
    std::string text; // what was changed, and to what
};

// `score` is to grow; `found` receives each step that made it grow. Scores that are no numbers end
// nothing and win nothing.
[[nodiscard]] FrameFilter searchTolerances(const FrameFilter &start, const std::function<double(const FrameFilter &)> &score,
                                           const std::function<void(const SearchStep &)> &found);

// Returns a line for each tolerance: its values, pass by pass.
[[nodiscard]] std::vector<std::string> describe(const FrameFilter &filter);

} // namespace denoise
