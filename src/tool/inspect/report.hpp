// An inspection as text, JSON and CSV.
#pragma once

#include "tool/inspect/inspection.hpp"

namespace vkattn::tool {

// A summary of each head within 80 columns, and notes on rows that are left out.
// `density`: with a column of it.
[[nodiscard]] std::string inspectionText(const Inspection &inspection, bool density);
// All figures; docs/analysis.md describes them.
[[nodiscard]] std::string inspectionJson(const Inspection &inspection);
// A header, and a row for each head of each batch entry. What was not measured is empty.
[[nodiscard]] std::string inspectionCsv(const Inspection &inspection);

} // namespace vkattn::tool
