// Heads as heat maps: queries downwards, keys to the right, with axes, title and colour bar.
#pragma once

#include "picture/heads.hpp"
#include "picture/raster.hpp"

namespace vkattn::picture {

struct HeatMapOptions {
    ColourMap map = ColourMap::viridis;
    bool ownRange = false; // each head's colours end at its own largest weight
};

// Tokens are written beside the axes where the head has at most so many.
inline constexpr size_t mostTokenLabels = 20;

[[nodiscard]] Raster heatMap(const Heads &heads, size_t head, const HeatMapOptions &options = {});
// All heads, ceil(sqrt(number)) in a row, with class and figures below each.
[[nodiscard]] Raster sheet(const Heads &heads, const HeatMapOptions &options = {});

// A number in few characters: "0.123", "12.3", "1.2e-07".
[[nodiscard]] std::string figureText(double value, int digits);

} // namespace vkattn::picture
