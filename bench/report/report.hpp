// The text on stdout, and the JSON file.
#pragma once

#include "arguments.hpp"
#include "machine/machine.hpp"
#include "measure/measure.hpp"
#include "measure/sweep.hpp"
#include "program/pictures/chart.hpp"

#include <string>
#include <vector>

namespace vkattn::bench {

void printShapeTable();
void printHeading(const Machine &machine, const DeviceInfo *device, uint32_t threads);
void printRow(const Measurement &m); // prints at once: a long run shows the rows that it has
void printConventions(Peaks *peaks); // NULL: not measured
void printSweep(const std::vector<SweepSeries> &series);
void printComparison(const std::vector<Measurement> &measurements, const std::vector<RivalRow> &rivals);

[[nodiscard]] std::string jsonReport(const Machine &machine, Peaks *peaks, const std::vector<Measurement> &measurements,
                                     const std::vector<SweepSeries> &series);

// Draws our series, and the rivals' rows of shapes that we have swept too.
[[nodiscard]] program::Chart sweepChart(const Machine &machine, PlotValue value, const std::vector<SweepSeries> &series,
                                        const std::vector<Shape> &bases, const std::vector<RivalRow> &rivals);

} // namespace vkattn::bench
