// What --stats, --received, --top-keys and --top-weights write.
#pragma once

#include "tool/inspect/head_source.hpp"
#include "tool/inspect/inspection.hpp"

namespace vkattn::tool {

inline constexpr size_t statisticsOfRow = 8;

// [..., query, 8] and [..., key], in the shapes of the source. Rows and keys of no sequence have zeros, and -1
// as the key.
[[nodiscard]] std::vector<float> rowStatistics(const Inspection &inspection, const HeadSource &source);
[[nodiscard]] std::vector<float> receivedMass(const Inspection &inspection, const HeadSource &source);

// [..., query, Measured::topKeys]. Rows of no sequence have the key -1 and 0.
[[nodiscard]] std::vector<int32_t> largestKeysOfRows(const Inspection &inspection, const HeadSource &source);
[[nodiscard]] std::vector<float> largestWeightsOfRows(const Inspection &inspection, const HeadSource &source);

} // namespace vkattn::tool
