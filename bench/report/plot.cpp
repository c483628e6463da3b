#include "report/plot.hpp"

#include "program/legible_text.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vkattn::bench {
using program::escapeMarkup;
namespace {

// Okabe and Ito's palette, told apart by colour-blind readers too; the yellow is left out, it is
// too pale for a line on white.
constexpr const char *colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};

constexpr double left = 84, right = 32, top = 78, plotHeight = 340, width = 860, legendRow = 24;
constexpr const char *ink = "#1f2328", *faint = "#59636e", *grid = "#e4e8ec";

std::string number(double value) {
    return decimals(value, 1);
}

std::string textAt(double x, double y, const std::string &text, double size, const char *colour, const char *more) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + number(size) + "\" fill=\"" + colour + "\" " + more +
           ">" + escapeMarkup(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char *colour, const char *more) {
    return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" stroke=\"" +
           colour + "\" " + more + "/>\n";
}

std::string tokensText(double tokens) {
    const auto whole = static_cast<uint64_t>(tokens);
    if (whole >= 1u << 20 && whole % (1u << 20) == 0) return std::to_string(whole >> 20) + "M";
    if (whole >= 1024 && whole % 1024 == 0) return std::to_string(whole / 1024) + "K";
    return std::to_string(whole);
}

// 1, 2 or 5 times a power of ten, so that about five lines fit below `largest`.
double niceStep(double largest) {
    const double rough = largest / 5, power = std::pow(10, std::floor(std::log10(rough))), ratio = rough / power;
    return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

struct Scale {
    double firstOctave = 0, lastOctave = 0;
    double lowest = 0, highest = 1; // logarithms where `logarithmic`
    bool logarithmic = false;
    [[nodiscard]] double x(double tokens) const {
        return left + (std::log2(tokens) - firstOctave) / (lastOctave - firstOctave) * (width - left - right);
    }
    [[nodiscard]] double y(double value) const {
        const double at = logarithmic ? std::log10(value) : value;
        return top + plotHeight * (1 - (at - lowest) / (highest - lowest));
    }
};

struct Tick {
    double value;
    std::string text;
};

// Values with a round label, and the scale's ends, which are such values.
std::vector<Tick> chooseTicks(double smallest, double largest, Scale &scale) {
    std::vector<Tick> ticks;
    const auto add = [&](double value, double step) {
        const int places = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
        ticks.push_back({value, decimals(value, places)});
    };
    // One line along the bottom tells nothing: where values lie far apart, so do the powers of ten.
    scale.logarithmic = largest > 30 * smallest;
    if (!scale.logarithmic) {
        const double step = niceStep(largest), last = std::ceil(largest * 1.02 / step);
        for (int n = 0; n <= static_cast<int>(last); ++n) add(n * step, step);
        scale.highest = last * step;
        return ticks;
    }
    scale.lowest = std::floor(std::log10(smallest));
    scale.highest = std::ceil(std::log10(largest * 1.02));
    const bool between = scale.highest - scale.lowest <= 3;
    for (int power = static_cast<int>(scale.lowest); power <= static_cast<int>(scale.highest); ++power) {
        const double ten = std::pow(10, power);
        add(ten, ten);
        if (between && power < static_cast<int>(scale.highest)) add(2 * ten, ten), add(5 * ten, ten);
    }
    return ticks;
}

std::string mark(const Scale &scale, std::pair<double, double> point, const PlotSeries &series, const char *colour) {
    std::string title =
        "<title>" + escapeMarkup(series.label) + ": " + tokensText(point.first) + " tokens, " + shortNumber(point.second) + "</title>";
    return "<circle cx=\"" + number(scale.x(point.first)) + "\" cy=\"" + number(scale.y(point.second)) + "\" r=\"4\" stroke=\"" + colour +
           "\" stroke-width=\"2\" fill=\"" + (series.rival ? "#ffffff" : colour) + "\">" + title + "</circle>\n";
}

std::string curve(const Scale &scale, const PlotSeries &series, const char *colour) {
    std::string path, marks;
    for (const auto &point : series.points) {
        path += (path.empty() ? "M" : " L") + number(scale.x(point.first)) + " " + number(scale.y(point.second));
        marks += mark(scale, point, series, colour);
    }
    return "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2.2\" stroke-linejoin=\"round\"" +
           (series.rival ? " stroke-dasharray=\"6 4\"" : "") + "/>\n" + marks;
}

std::string axes(const Plot &plot, const Scale &scale, const std::vector<Tick> &ticks) {
    std::string text;
    const double bottom = top + plotHeight;
    for (const Tick &tick : ticks) {
        const double y = scale.y(tick.value);
        if (y < bottom - 1) text += line(left, y, width - right, y, grid, "");
        text += textAt(left - 10, y + 5, tick.text, 14, faint, "text-anchor=\"end\"");
    }
    // A label for each octave, every second one where they would touch.
    const double octaves = scale.lastOctave - scale.firstOctave;
    const double every = std::max(1.0, std::ceil(octaves / 12));
    for (double octave = std::ceil(scale.firstOctave); octave <= scale.lastOctave; octave += every) {
        const double x = scale.x(std::exp2(octave));
        text += line(x, top, x, bottom, grid, "") + line(x, bottom, x, bottom + 6, faint, "");
        text += textAt(x, bottom + 24, tokensText(std::exp2(octave)), 14, faint, "text-anchor=\"middle\"");
    }
    text += line(left, bottom, width - right, bottom, faint, "stroke-width=\"1.2\"");
    text += textAt((left + width - right) / 2, bottom + 50, "tokens", 15, ink, "text-anchor=\"middle\"");
    const std::string middle = number(top + plotHeight / 2);
    text += "<text transform=\"translate(24 " + middle + ") rotate(-90)\" font-size=\"15\" fill=\"" + ink + "\" text-anchor=\"middle\">" +
            escapeMarkup(plot.yLabel + (scale.logarithmic ? " (logarithmic)" : "")) + "</text>\n";
    return text;
}

// Two columns where every label fits half the width.
size_t legendColumns(const Plot &plot) {
    constexpr size_t fits = 42;
    return std::all_of(plot.series.begin(), plot.series.end(), [](const PlotSeries &s) { return s.label.size() <= fits; }) ? 2 : 1;
}

std::string legend(const Plot &plot, double y) {
    std::string text;
    const size_t columns = legendColumns(plot);
    const double column = (width - left - right) / 2;
    for (size_t n = 0; n < plot.series.size(); ++n) {
        const PlotSeries &series = plot.series[n];
        const char *colour = colours[n % std::size(colours)];
        const size_t row = n / columns;
        const double x = left + static_cast<double>(n % columns) * column, at = y + static_cast<double>(row) * legendRow;
        text += line(x, at, x + 32, at, colour, series.rival ? "stroke-width=\"2.2\" stroke-dasharray=\"6 4\"" : "stroke-width=\"2.2\"");
        text += "<circle cx=\"" + number(x + 16) + "\" cy=\"" + number(at) + "\" r=\"4\" stroke=\"" + colour +
                "\" stroke-width=\"2\" fill=\"" + (series.rival ? "#ffffff" : colour) + "\"/>\n";
        text += textAt(x + 42, at + 5, series.label, 14, ink, "");
    }
    return text;
}

} // namespace

std::string svgText(const Plot &plot) {
    double fewest = INFINITY, most = 0, smallest = INFINITY, largest = 0;
    for (const PlotSeries &series : plot.series)
        for (const auto &[tokens, value] : series.points) {
            fewest = std::min(fewest, tokens);
            most = std::max(most, tokens);
            smallest = std::min(smallest, value);
            largest = std::max(largest, value);
        }
    // A little room beside the outermost points.
    Scale scale{.firstOctave = std::log2(fewest) - 0.15, .lastOctave = std::log2(most) + 0.15};
    if (fewest == most) scale.firstOctave -= 0.85, scale.lastOctave += 0.85;
    const std::vector<Tick> ticks = chooseTicks(smallest, largest, scale);

    const double legendAt = top + plotHeight + 84;
    const size_t columns = legendColumns(plot);
    const size_t rows = (plot.series.size() + columns - 1) / columns;
    const double height = legendAt + legendRow * static_cast<double>(rows);
    std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) + "\" width=\"" +
                       number(width) + "\" height=\"" + number(height) +
                       "\" font-family=\"'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n";
    text += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    text += textAt(left, 32, plot.title, 19, ink, "font-weight=\"600\"");
    text += textAt(left, 55, plot.subtitle, 14, faint, "");
    text += axes(plot, scale, ticks);
    for (size_t n = 0; n < plot.series.size(); ++n)
        if (!plot.series[n].points.empty()) text += curve(scale, plot.series[n], colours[n % std::size(colours)]);
    return text + legend(plot, legendAt) + "</svg>\n";
}

} // namespace vkattn::bench
