// Curves as an SVG picture: one plot, or several below each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::program {

enum class AxisScale { linear, octaves, decades }; // the last two are logarithmic: a mark at each power of 2 or 10

struct Axis {
    std::string label;
    AxisScale scale = AxisScale::linear;
    // Ends other than those of the points, which linear y axes of positive values extend to 0.
    std::optional<double> least{}, most{};
    std::function<std::string(double)> text{}; // of a mark; otherwise numberText()
};

struct Curve {
    std::string label;
    // Points that an axis cannot show (not finite; not above 0 on a logarithmic one; beyond the ends that are
    // given) leave a gap.
    std::vector<std::pair<double, double>> points;
    bool dashed = false, marks = true; // marks of a dashed curve are hollow
};

struct Guide { // a dashed line across
    double value = 0;
    std::string label;
};

struct Plot {
    Axis x, y;
    std::vector<Curve> curves;
    std::vector<Guide> guides{};
    double height = 300;
};

struct Chart {
    std::string title, subtitle;
    std::vector<Plot> plots;
};

// Returns a number as people read it: 0.0123, 1.23, 12.3, 1234, 5e-44.
[[nodiscard]] std::string numberText(double value);
// 65,536 as "64K".
[[nodiscard]] std::string binaryText(double value);

// Returns the picture, with text escaped.
[[nodiscard]] std::string svgText(const Chart &chart);

} // namespace vkattn::program
