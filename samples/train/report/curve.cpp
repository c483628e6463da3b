#include "report/curve.hpp"

#include "program/legible_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace train {
namespace {

constexpr double width = 860, left = 84, right = 828, columns = right - left;
constexpr size_t mostPoints = 744; // one for each column

std::string number(double value, const char *format = "%.1f") {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

// 1, 2 or 5 times a power of ten, so that at most `most` of them lie in the range.
double tickOf(double range, double most) {
    double tick = std::pow(10, std::floor(std::log10(range / most)));
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if (range / (tick * factor) <= most) return tick * factor;
    return tick * 10;
}

class Drawing {
  public:
    explicit Drawing(double height) {
        svg_ =
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width, "%.0f") + " " + number(height, "%.0f") +
            "\" width=\"" + number(width, "%.0f") + "\" height=\"" + number(height, "%.0f") +
            "\" font-family=\"'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\" "
            "role=\"img\">\n"
            "<style>\n"
            ".page { fill: #ffffff } .title { fill: #1f2328; font-size: 19px; font-weight: 600 } .text { fill: #59636e; font-size: 14px }\n"
            ".grid { stroke: #e4e8ec } .axis { stroke: #59636e } .guess { stroke: #8c959f; stroke-dasharray: 6 5 }\n"
            ".loss { stroke: #0969da } .accuracy { stroke: #1a7f37 } .curve { fill: none; stroke-width: 2; stroke-linejoin: round; "
            "stroke-linecap: round }\n"
            "@media (prefers-color-scheme: dark) {\n"
            ".page { fill: #0d1117 } .title { fill: #f0f6fc } .text { fill: #9198a1 } .grid { stroke: #262c36 } .axis { stroke: #9198a1 }\n"
            ".guess { stroke: #767e88 } .loss { stroke: #58a6ff } .accuracy { stroke: #56d364 }\n"
            "}\n</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    }
    void text(double x, double y, const char *look, const std::string &content, const char *more = "") {
        svg_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + look + "\"" + more + ">" +
                vkattn::program::escapeMarkup(content) + "</text>\n";
    }
    void line(double x1, double y1, double x2, double y2, const char *look) {
        svg_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" class=\"" +
                look + "\"/>\n";
    }
    void curve(const std::string &points, const char *look) {
        svg_ += "<polyline class=\"curve ";
        svg_ += look;
        svg_ += "\" points=\"" + points + "\"/>\n";
    }
    [[nodiscard]] std::string finish() { return svg_ + "</svg>\n"; }

  private:
    std::string svg_;
};

// One of the two plots. Values from 0 to `most` lie between `bottom` and `top`.
struct Plot {
    Drawing &drawing;
    double top, bottom, most;
    size_t steps;

    [[nodiscard]] double x(double step) const {
        return left + (steps > 1 ? (step - 1) / static_cast<double>(steps - 1) * columns : columns / 2);
    }
    [[nodiscard]] double y(double value) const { return bottom - std::clamp(value / most, 0.0, 1.0) * (bottom - top); }

    void axis(double tick, const char *format, const std::string &name) const {
        for (double value = 0; value <= most * (1 + 1e-9); value += tick) {
            if (value > 0) drawing.line(left, y(value), right, y(value), "grid");
            drawing.text(left - 10, y(value) + 5, "text", number(value, format), " text-anchor=\"end\"");
        }
        drawing.line(left, bottom, right, bottom, "axis");
        drawing.text(left, top - 12, "text", name);
    }
    void stepAxis(bool named) const {
        const double tick = std::max(1.0, tickOf(std::max(static_cast<double>(steps), 1.0), 8)); // an interrupted run may have no step
        for (double step = tick; step <= static_cast<double>(steps); step += tick) {
            drawing.line(x(step), bottom, x(step), bottom + 6, "axis");
            drawing.text(x(step), bottom + 24, "text", number(step, "%.0f"), " text-anchor=\"middle\"");
        }
        if (named) drawing.text((left + right) / 2, bottom + 46, "text", "step of training", " text-anchor=\"middle\"");
    }
    // Means of as many steps as share a column.
    void curve(const char *look, const std::function<double(size_t)> &value) const {
        const size_t each = (steps + mostPoints - 1) / mostPoints;
        std::string points;
        for (size_t first = 0; first < steps; first += each) {
            const size_t count = std::min(each, steps - first);
            double sum = 0;
            for (size_t n = first; n < first + count; ++n) sum += value(n);
            const double step = static_cast<double>(first) + static_cast<double>(count + 1) / 2;
            points += (points.empty() ? "" : " ") + number(x(step)) + "," + number(y(sum / static_cast<double>(count)));
        }
        if (steps == 1) points += " " + points; // a dot, by the ends of the line
        drawing.curve(points, look);
    }
};

} // namespace

std::string drawCurve(const Configuration &configuration, const State &state, const std::string &title) {
    const std::vector<StepFigures> &history = state.history;
    const double symbols = configuration.shape.symbols, guessing = std::log(symbols);
    double largest = guessing;
    for (const StepFigures &each : history)
        if (std::isfinite(each.loss)) largest = std::max(largest, static_cast<double>(each.loss));
    Drawing drawing(632);
    drawing.text(left, 32, "title", "A copy task, learned by one attention layer");
    drawing.text(left, 55, "text", title);
    const Plot loss{drawing, 100, 320, largest * 1.05, history.size()}, accuracy{drawing, 388, 568, 100, history.size()};
    loss.axis(tickOf(loss.most, 6), loss.most < 1 ? "%.1f" : "%.0f", "loss in nats a letter");
    loss.stepAxis(false);
    loss.drawing.line(left, loss.y(guessing), right, loss.y(guessing), "guess");
    drawing.text(right, loss.y(guessing) - 7, "text", "guessing: ln " + number(symbols, "%.0f") + " = " + number(guessing, "%.2f"),
                 " text-anchor=\"end\"");
    loss.curve("loss", [&](size_t n) { return static_cast<double>(history[n].loss); });
    accuracy.axis(25, "%.0f", "letters that are right, in percent");
    accuracy.stepAxis(true);
    accuracy.drawing.line(left, accuracy.y(100 / symbols), right, accuracy.y(100 / symbols), "guess");
    accuracy.curve("accuracy", [&](size_t n) { return 100 * static_cast<double>(history[n].accuracy); });
    return drawing.finish();
}

} // namespace train
