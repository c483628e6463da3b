// How the CPU computes, as reports show it.
#pragma once

#include "program/json_text.hpp"

#include <vkattn/cpu.h>

#include <string>

namespace vkattn::tool {

// null for a plan that was not made.
[[nodiscard]] program::Json cpuPlanJson(const vkattn_cpu_plan &plan);

// "AVX2, 8 lanes: tiles of 16 rows x 96 keys, up to 128 rows at a time, 2 threads, 301 KiB of
// workspace"; empty for a plan that was not made.
[[nodiscard]] std::string cpuPlanText(const vkattn_cpu_plan &plan);

} // namespace vkattn::tool
