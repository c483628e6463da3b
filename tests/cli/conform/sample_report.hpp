// Made-up reports of `vkattn conform`.
#pragma once

#include "conform/report/report.hpp"

namespace vkattn::test {

// Every member of every struct differs from what an empty one has; one device, a check of each
// verdict, strings that break what does not escape them.
[[nodiscard]] conform::Report hostileReport();

// Returns a report that looks like real ones: two devices, some 400 checks each, a few failures on
// the second. The report is the same for the same seed.
[[nodiscard]] conform::Report everydayReport(uint64_t seed);

// All hostile strings begin with this text, and nothing shows it unescaped.
inline constexpr const char *hostileBeginning = "</script><b onclick='x'>&\"|";

} // namespace vkattn::test
