#include "program/pictures/chart.hpp"

#include "program/pictures/drawing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace vkattn::program {
namespace {

constexpr double width = 860, left = 84, right = 828, columns = right - left;
constexpr double legendRow = 24, legendAbove = 30, labelHeight = 34, axisHeight = 52;

// 1, 2 or 5 times a power of ten, so that at most `most` of them lie in the range.
double tickOf(double range, double most) {
    const double power = std::pow(10, std::floor(std::log10(range / most)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (range / (power * factor) <= most) return power * factor;
    return power * 10;
}

// Powers from one mark to the next: 1, 2, 5 or 10, ...
double tickEvery(double least) {
    return least <= 1 ? 1 : tickOf(least, 1);
}

// Where values lie on an axis, from 0 at its start to 1 at its end.
class Range {
  public:
    Range(const Axis &axis, bool fromZero) : axis_(axis), fromZero_(fromZero) {}

    [[nodiscard]] bool shows(double value) const { return std::isfinite(value) && (axis_.scale == AxisScale::linear || value > 0); }
    void include(double value) {
        if (!shows(value)) return;
        least_ = std::min(least_, value), most_ = std::max(most_, value);
    }
    void close() {
        if (axis_.scale != AxisScale::linear && !(least_ <= most_)) least_ = 1, most_ = 10;
        if (!(least_ <= most_)) least_ = 0, most_ = 1;
        if (axis_.scale == AxisScale::linear)
            closeLinear();
        else
            closeLogarithmic();
        if (axis_.least) start_ = place(*axis_.least);
        if (axis_.most) end_ = place(*axis_.most);
    }
    [[nodiscard]] double at(double value) const { return (place(value) - start_) / (end_ - start_); }
    [[nodiscard]] std::vector<double> ticks(double most) const {
        std::vector<double> ticks;
        if (axis_.scale == AxisScale::linear) {
            const double step = tickOf(end_ - start_, most);
            const auto last = static_cast<int64_t>(std::floor(end_ / step + 1e-9));
            for (auto n = static_cast<int64_t>(std::ceil(start_ / step - 1e-9)); n <= last; ++n)
                ticks.push_back(static_cast<double>(n) * step);
            return ticks;
        }
        const double every = tickEvery((end_ - start_) / most);
        const bool between = axis_.scale == AxisScale::decades && end_ - start_ <= 3;
        const double first = std::ceil(start_ - 1e-9);
        for (double power = first - (between ? 1 : 0); power <= end_ + 1e-9; ++power)
            for (const double factor : {1.0, 2.0, 5.0}) {
                if (factor > 1 && !between) continue;
                const double value = factor * std::pow(base(), power), where = place(value);
                if (where < start_ - 1e-9 || where > end_ + 1e-9) continue;
                if (std::fmod(power - first, every) == 0) ticks.push_back(value);
            }
        return ticks;
    }

  private:
    [[nodiscard]] double base() const { return axis_.scale == AxisScale::octaves ? 2 : 10; }
    [[nodiscard]] double place(double value) const {
        return axis_.scale == AxisScale::linear ? value : axis_.scale == AxisScale::octaves ? std::log2(value) : std::log10(value);
    }
    void closeLinear() {
        start_ = fromZero_ && least_ > 0 ? 0 : least_;
        end_ = fromZero_ && most_ < 0 ? 0 : most_;
        if (start_ == end_) end_ = start_ + 1;
        if (!fromZero_) return;
        const double step = tickOf((end_ - start_) * 1.02, 6);
        start_ = std::floor(start_ / step + 1e-9) * step;
        end_ = std::ceil((end_ + (end_ - start_) * 0.02) / step - 1e-9) * step;
    }
    // The next mark on either side, or along x a little room.
    void closeLogarithmic() {
        start_ = place(least_), end_ = place(most_);
        if (!fromZero_) {
            const double room = start_ == end_ ? 1 : (end_ - start_) * 0.02;
            start_ -= room, end_ += room;
            return;
        }
        const bool few = axis_.scale == AxisScale::decades && end_ - start_ <= 3;
        const auto mark = [&](double at, bool up) {
            if (!few) return up ? std::ceil(at + 1e-9) : std::floor(at);
            const double power = std::floor(at), ratio = std::pow(10, at - power);
            if (up) return power + std::log10(ratio < 2 ? 2.0 : ratio < 5 ? 5.0 : 10.0);
            return power + std::log10(ratio >= 5 ? 5.0 : ratio >= 2 ? 2.0 : 1.0);
        };
        start_ = mark(start_, false), end_ = mark(end_, true);
    }

    const Axis &axis_;
    bool fromZero_;
    double least_ = INFINITY, most_ = -INFINITY, start_ = 0, end_ = 1;
};

std::string textOf(const Axis &axis, double value) {
    return axis.text ? axis.text(value) : numberText(value);
}

bool hasLegend(const Plot &plot) {
    return plot.curves.size() > 1 || (!plot.curves.empty() && !plot.curves.front().label.empty());
}

// Two columns where every label fits half the width.
size_t legendColumns(const Plot &plot) {
    return std::all_of(plot.curves.begin(), plot.curves.end(), [](const Curve &each) { return each.label.size() <= 42; }) ? 2 : 1;
}

double legendHeight(const Plot &plot) {
    if (!hasLegend(plot)) return 0;
    const size_t rows = (plot.curves.size() + legendColumns(plot) - 1) / legendColumns(plot);
    return legendAbove + legendRow * static_cast<double>(rows);
}

double heightOf(const Plot &plot) {
    return labelHeight + plot.height + axisHeight + legendHeight(plot) + 10;
}

class PlotDrawing {
  public:
    PlotDrawing(Drawing &drawing, const Plot &plot, double top)
        : drawing_(drawing), plot_(plot), x_(plot.x, false), y_(plot.y, true), top_(top + labelHeight), bottom_(top_ + plot.height) {
        for (const Curve &each : plot.curves)
            for (const auto &[x, y] : each.points)
                if (x_.shows(x) && y_.shows(y)) x_.include(x), y_.include(y);
        for (const Guide &each : plot.guides) y_.include(each.value);
        x_.close(), y_.close();
    }
    void draw() const {
        axes();
        for (const Guide &each : plot_.guides) {
            drawing_.line(left, y(each.value), right, y(each.value), "guide");
            // At the end where no curve is in the way.
            if (crowded(y(each.value)))
                drawing_.text(left + 8, y(each.value) - 7, "text", each.label);
            else
                drawing_.text(right, y(each.value) - 7, "text end", each.label);
        }
        for (size_t n = 0; n < plot_.curves.size(); ++n) curve(plot_.curves[n], lookOf(n));
        if (hasLegend(plot_)) legend();
    }

  private:
    [[nodiscard]] double x(double value) const { return left + x_.at(value) * columns; }
    [[nodiscard]] double y(double value) const { return bottom_ - std::clamp(y_.at(value), 0.0, 1.0) * (bottom_ - top_); }
    [[nodiscard]] static std::string lookOf(size_t n) { return "colour" + std::to_string(n % seriesColours); }

    [[nodiscard]] bool shows(const std::pair<double, double> &point) const {
        constexpr double slack = 1e-6;
        if (!x_.shows(point.first) || !y_.shows(point.second)) return false;
        const double up = y_.at(point.second);
        return up > -slack && up < 1 + slack;
    }
    // Tells whether a curve is near the right end of a line's label.
    [[nodiscard]] bool crowded(double at) const {
        for (const Curve &each : plot_.curves)
            for (const auto &point : each.points)
                if (shows(point) && x(point.first) > right - columns / 4 && y(point.second) > at - 26 && y(point.second) < at + 4)
                    return true;
        return false;
    }
    void axes() const {
        for (const double tick : y_.ticks(7)) {
            if (y(tick) < bottom_ - 1) drawing_.line(left, y(tick), right, y(tick), "grid");
            drawing_.text(left - 10, y(tick) + 5, "text end", textOf(plot_.y, tick));
        }
        for (const double tick : x_.ticks(12)) {
            drawing_.line(x(tick), bottom_, x(tick), bottom_ + 6, "axis");
            drawing_.text(x(tick), bottom_ + 24, "text middle", textOf(plot_.x, tick));
        }
        drawing_.line(left, bottom_, right, bottom_, "axis");
        drawing_.text(left, top_ - 14, "label", plot_.y.label);
        drawing_.text((left + right) / 2, bottom_ + 46, "label middle", plot_.x.label);
    }
    void curve(const Curve &curve, const std::string &look) const {
        const std::string line = "series " + look + (curve.dashed ? " dashed" : "");
        std::string points;
        size_t count = 0;
        const auto end = [&] {
            if (count == 1 && !curve.marks) points += " " + points; // a dot, by the ends of the line
            if (!points.empty()) drawing_.polyline(points, line);
            points.clear(), count = 0;
        };
        for (const auto &[px, py] : curve.points) {
            if (!shows({px, py})) {
                end();
                continue;
            }
            points += (points.empty() ? "" : " ") + decimals(x(px), 1) + "," + decimals(y(py), 1);
            ++count;
        }
        end();
        if (!curve.marks) return;
        for (const auto &[px, py] : curve.points)
            if (shows({px, py}))
                mark(x(px), y(py), curve, look,
                     curve.label + ": " + textOf(plot_.x, px) + " " + plot_.x.label + ", " + textOf(plot_.y, py));
    }
    void mark(double x, double y, const Curve &curve, const std::string &look, const std::string &title) const {
        drawing_.circle(x, y, 4, (curve.dashed ? "hollow " : "fill ") + look, title);
    }
    void legend() const {
        const size_t across = legendColumns(plot_);
        for (size_t n = 0; n < plot_.curves.size(); ++n) {
            const Curve &each = plot_.curves[n];
            const double at = bottom_ + axisHeight + legendAbove + static_cast<double>(n / across) * legendRow,
                         from = left + static_cast<double>(n % across) * (columns / 2);
            drawing_.line(from, at, from + 32, at, "series " + lookOf(n) + (each.dashed ? " dashed" : ""));
            if (each.marks) mark(from + 16, at, each, lookOf(n), "");
            drawing_.text(from + 42, at + 5, "text", each.label);
        }
    }

    Drawing &drawing_;
    const Plot &plot_;
    Range x_, y_;
    double top_, bottom_;
};

} // namespace

std::string numberText(double value) {
    const double size = std::abs(value);
    char text[32];
    if (size >= 1e6 || (size > 0 && size < 1e-3)) {
        std::snprintf(text, sizeof text, "%.3g", value);
        std::string short_ = text; // 5e-05 as 5e-5
        for (const char *const padded : {"e-0", "e+0", "e+"})
            if (const size_t at = short_.find(padded); at != std::string::npos)
                return short_.replace(at, std::char_traits<char>::length(padded), padded[1] == '-' ? "e-" : "e");
        return short_;
    }
    std::snprintf(text, sizeof text, size >= 1000 ? "%.0f" : "%.3g", value);
    return text;
}

std::string binaryText(double value) {
    const auto whole = static_cast<uint64_t>(value);
    if (whole >= 1u << 20 && whole % (1u << 20) == 0) return std::to_string(whole >> 20) + "M";
    if (whole >= 1024 && whole % 1024 == 0) return std::to_string(whole / 1024) + "K";
    return std::to_string(whole);
}

std::string svgText(const Chart &chart) {
    double height = 76;
    for (const Plot &each : chart.plots) height += heightOf(each);
    Drawing drawing(width, height + 8);
    drawing.text(left, 32, "title", chart.title);
    drawing.text(left, 56, "text", chart.subtitle);
    double top = 76;
    for (const Plot &each : chart.plots) {
        PlotDrawing(drawing, each, top).draw();
        top += heightOf(each);
    }
    return drawing.finish();
}

} // namespace vkattn::program
