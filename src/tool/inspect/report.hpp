// An inspection as text, JSON and CSV.
#pragma once

#include "tool/inspect/inspection.hpp"

namespace vkattn::tool {

// A summary of each head within 80 columns, and notes on rows that are left out.
[[nodiscard]] std::string inspectionText(const Inspection &inspection);
// All figures; docs/analysis.md describes them.
[[nodiscard]] std::string inspectionJson(const Inspection &inspection);
// A header, and a row for each head of each batch entry.
[[nodiscard]] std::string inspectionCsv(const Inspection &inspection);

} // namespace vkattn::tool
