// Throughput by sequence length as an SVG picture.
#pragma once

#include <string>
#include <vector>

namespace vkattn::bench {

struct PlotSeries {
    std::string label;
    bool rival = false;                            // drawn dashed, with hollow marks
    std::vector<std::pair<double, double>> points; // tokens and value, both above 0
};

struct Plot {
    std::string title, subtitle, yLabel;
    std::vector<PlotSeries> series; // at least one point in all
};

// Returns the picture, with text escaped: a light background, a log2 x axis, and a y axis from 0,
// or a logarithmic one where values lie far apart.
[[nodiscard]] std::string svgText(const Plot &plot);

} // namespace vkattn::bench
