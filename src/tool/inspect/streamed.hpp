// From the statistics of vkattn/statistics.h to what src/analysis measures of weights.
#pragma once

#include "analysis/measures.hpp"
#include "tool/inspect/head_source.hpp"

namespace vkattn::tool {

// A row of statistics as src/analysis has it. `sum`: what attention's own weights of the row sum to.
[[nodiscard]] analysis::RowMeasures rowMeasures(std::span<const float, VKATTN_STATISTIC_COUNT> row, double sum);

// Everything of `measures` that statistics tell; the rest stays as it is. Density and the weight on the largest
// keys are told where they were asked for.
void takeStatistics(const HeadStatistics &statistics, const StatisticsRequest &request, const analysis::MeasureOptions &options,
                    analysis::HeadMeasures &measures);

} // namespace vkattn::tool
