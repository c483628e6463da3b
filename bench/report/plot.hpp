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

// Text is escaped. Light background, log2 x axis, y from 0, or logarithmic where values lie far
// apart.
[[nodiscard]] std::string svgText(const Plot &plot);

} // namespace vkattn::bench
