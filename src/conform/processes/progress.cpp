#include "conform/processes/progress.hpp"

#include "program/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr std::chrono::milliseconds redrawn{100}, repeated{30000};
constexpr uint64_t fewestChecks = 5; // checks before the remaining time is estimated
constexpr uint32_t barWidth = 20;

std::string clockText(double seconds) {
    const auto whole = static_cast<uint64_t>(std::max(seconds, 0.0));
    char text[40];
    if (whole >= 3600)
        std::snprintf(text, sizeof text, "%llu:%02u:%02u", static_cast<unsigned long long>(whole / 3600),
                      static_cast<unsigned>(whole / 60 % 60), static_cast<unsigned>(whole % 60));
    else
        std::snprintf(text, sizeof text, "%u:%02u", static_cast<unsigned>(whole / 60), static_cast<unsigned>(whole % 60));
    return text;
}

double share(const ProgressState &state) {
    return state.costAll > 0 ? std::clamp(state.costDone / state.costAll, 0.0, 1.0) : 0;
}

std::string bar(double full) {
    const auto filled = static_cast<size_t>(std::lround(full * barWidth));
    std::string text(barWidth, '.');
    std::fill_n(text.begin(), filled, '#');
    return "[" + text + "]";
}

} // namespace

std::optional<double> timeLeft(const ProgressState &state) {
    std::optional<double> left;
    if (state.done >= fewestChecks && state.costDone > 0 && state.costAll > 0)
        left = state.checkSeconds * std::max(state.costAll - state.costDone, 0.0) / state.costDone;
    if (state.secondsAtMost && (!left || *state.secondsAtMost < *left)) left = std::max(*state.secondsAtMost, 0.0);
    return left;
}

std::string progressLine(const ProgressState &state, uint32_t columns) {
    std::string text;
    if (!state.doing.empty()) {
        text = state.doing + "  " + clockText(state.seconds);
    } else {
        if (state.all > 0) text = bar(share(state)) + " " + std::to_string(state.done) + "/" + std::to_string(state.all) + " checks";
        if (state.all == 0) text = std::to_string(state.done) + " checks";
        text += ", " + std::to_string(state.failures) + (state.failures == 1 ? " failure" : " failures") + "  " + clockText(state.seconds);
        if (const std::optional<double> left = timeLeft(state)) text += ", " + clockText(*left) + " left";
    }
    // The name of the device gives way to the figures.
    const std::string device = state.device + "  ";
    if (text.size() >= columns) return text.substr(0, columns);
    return device.size() + text.size() <= columns ? device + text : device.substr(0, columns - text.size() - 1) + " " + text;
}

Progress::Progress() : terminal_(stderrIsTerminal()) {}

Progress::~Progress() {
    clear();
}

void Progress::clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
}

void Progress::show(const ProgressState &state) {
    const auto now = Clock::now();
    if (!shown_) shown_ = terminal_ ? now - redrawn : now;
    if (now - *shown_ < (terminal_ ? redrawn : repeated)) return;
    shown_ = now;
    if (!terminal_) {
        std::fprintf(stderr, "%s\n", progressLine(state, 200).c_str());
        return;
    }
    clear();
    // A text in the last column would wrap.
    std::fputs(progressLine(state, terminalColumns() - 1).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
}

void Progress::print(const std::string &text) {
    clear();
    std::fprintf(stderr, "%s\n", text.c_str());
}

} // namespace vkattn::conform
