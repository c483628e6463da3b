// What --linear prints, writes and draws.
#pragma once

#include "machine/machine.hpp"
#include "measure/linear.hpp"
#include "program/pictures/chart.hpp"

#include <span>

namespace vkattn::bench {

void printLinearHeading(const Machine &machine);
void printLinear(std::span<const LinearTime> times); // the passes over one shape
[[nodiscard]] std::string linearCsvHeader();
[[nodiscard]] std::string linearCsvRow(const Machine &machine, const LinearTime &time);

// One pass over a shape at several lengths.
struct LinearSeries {
    std::string family, pass;
    std::vector<std::pair<double, double>> points; // tokens, median milliseconds
};
[[nodiscard]] std::vector<LinearSeries> linearSeries(std::span<const LinearTime> times);
// The number of tokens from which `linear` is faster than `softmax`, between points of both by the
// straight lines of logarithms. Nothing where one is faster at all points of both.
[[nodiscard]] std::optional<double> crossing(const LinearSeries &linear, const LinearSeries &softmax);
void printLinearSweep(std::span<const LinearSeries> series);
[[nodiscard]] program::Chart linearChart(const Machine &machine, std::span<const LinearSeries> series);

} // namespace vkattn::bench
