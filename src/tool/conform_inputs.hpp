// What `vkattn conform` reads: reports, and checks to run again.
#pragma once

#include "conform_report.hpp"

namespace vkattn::tool {

// Throw Failure.
[[nodiscard]] Report readReport(const std::string &option, const std::string &path);
// Each text is SEED:CASE, or the path of a report whose failures are meant.
[[nodiscard]] std::vector<conform::CheckResult> readReplays(const std::vector<std::string> &texts);

} // namespace vkattn::tool
