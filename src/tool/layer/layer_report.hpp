// What reports say of a layer: its steps and its options.
#pragma once

#include "tool/layer/layer_job.hpp"
#include "tool/report/run_report.hpp"

namespace vkattn::tool {

// What each step computes: its operands' shapes as the notes on attention write them, and what it
// takes on the Runtime's device.
[[nodiscard]] std::vector<ReportedStep> describeSteps(const LayerJob &job, const Runtime &runtime);

// The options in use, those of the layer first.
[[nodiscard]] program::Json layerOptionsJson(const LayerArguments &arguments, const LayerJob &job);

} // namespace vkattn::tool
