// What each stage of attention takes, by formula: operations, bytes, and what lies between the stages.
#pragma once

#include "program/json_text.hpp"
#include "tool/report/run_report.hpp"

#include <vkattn/problem.h>

#include <string>
#include <vector>

namespace vkattn::tool {

struct Stage {
    std::string name, formula;
    double flops = 0, bytesRead = 0, bytesWritten = 0;
    double betweenBytes = 0; // what the stage leaves for the next one
};

// Q K^T, softmax and P V, each as a pass over all pairs whose results are stored in f32: what a fused
// kernel saves.
[[nodiscard]] std::vector<Stage> stagesOf(const vkattn_problem &problem);
// A recurrent net's n d^2, over as many tokens of as many dims, all heads together.
[[nodiscard]] Stage recurrentOf(double tokens, double dims, vkattn_dtype dtype);

// `planned`: what computes the stages together.
void printStages(const std::vector<Stage> &stages, const Stage &recurrent, const std::vector<ReportedStep> &planned);
[[nodiscard]] program::Json stagesJson(const std::vector<Stage> &stages, const Stage &recurrent);

} // namespace vkattn::tool
