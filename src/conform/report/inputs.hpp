// The inputs of `vkattn conform`: reports, and checks to run again.
#pragma once

#include "conform/report/report.hpp"

namespace vkattn::conform {

// These functions throw Failure.
[[nodiscard]] Report readReport(const std::string &option, const std::string &path);
// Each text is SEED:CASE, or the path of a report: the report stands for its failures.
[[nodiscard]] std::vector<CheckResult> readReplays(const std::vector<std::string> &texts);

} // namespace vkattn::conform
