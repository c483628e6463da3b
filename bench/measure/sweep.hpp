// The growth of time and workspace with the number of tokens.
#pragma once

#include "measure/measure.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vkattn::bench {

// A fit of value = factor * tokens^exponent, by least squares on logarithms.
struct PowerFit {
    double exponent = 0;
    double determination = 0; // R squared: 1 = the points lie on the line
};
// Returns nothing where fewer than two different token counts have a value above 0.
[[nodiscard]] std::optional<PowerFit> fitPower(const std::vector<double> &tokens, const std::vector<double> &values);

// One shape by one kernel over sequence lengths, failed points left out.
struct SweepSeries {
    std::string family, kernel; // kernel: the one asked for, and the one that auto became
    std::vector<Measurement> points;
    std::optional<PowerFit> work{}, time{}, workspace{}; // work: pairs that are not hidden
};
[[nodiscard]] std::vector<SweepSeries> sweepSeries(const std::vector<Measurement> &measurements);

} // namespace vkattn::bench
