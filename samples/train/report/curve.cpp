#include "report/curve.hpp"

#include "program/pictures/chart.hpp"

#include <algorithm>
#include <cmath>

namespace train {
namespace {

using namespace vkattn::program;

constexpr size_t mostPoints = 744; // one for each column of the picture

// Means of as many steps as share a column.
template <class Value> Curve curveOf(const std::vector<StepFigures> &history, const Value &value) {
    Curve curve{.marks = false};
    const size_t each = (history.size() + mostPoints - 1) / mostPoints;
    for (size_t first = 0; first < history.size(); first += each) {
        const size_t count = std::min(each, history.size() - first);
        double sum = 0;
        for (size_t n = first; n < first + count; ++n) sum += value(history[n]);
        curve.points.emplace_back(static_cast<double>(first) + static_cast<double>(count + 1) / 2, sum / static_cast<double>(count));
    }
    return curve;
}

} // namespace

std::string drawCurve(const Configuration &configuration, const State &state, const std::string &title) {
    const std::vector<StepFigures> &history = state.history;
    const double symbols = configuration.shape.symbols, guessing = std::log(symbols);
    const Axis steps{.label = "step of training", .least = 1, .most = std::max<double>(2, static_cast<double>(history.size()))};
    Plot loss{.x = steps, .y = {.label = "loss in nats a letter", .least = 0}, .height = 220};
    loss.curves.push_back(curveOf(history, [](const StepFigures &each) { return static_cast<double>(each.loss); }));
    loss.guides.push_back({guessing, "guessing: ln " + numberText(symbols) + " = " + numberText(guessing)});
    Plot accuracy{.x = steps, .y = {.label = "letters that are right, in percent", .least = 0, .most = 100}, .height = 180};
    accuracy.curves.push_back(curveOf(history, [](const StepFigures &each) { return 100 * static_cast<double>(each.accuracy); }));
    accuracy.guides.push_back({100 / symbols, "guessing"});
    return svgText({"A copy task, learned by one attention layer", title, {loss, accuracy}});
}

} // namespace train
