// The flash and decode kernels: fused attention in one pass over the keys, in tiles of query rows;
// decode with lanes along the keys. The kernels on matrix units (coopmat.hpp) have the same
// dispatches with other shaders.
#pragma once

#include "core/plan/kernel.hpp"

namespace vkattn {

// Members of the kernels' rows in the table (core/plan/kernel.hpp).
namespace flash {

[[nodiscard]] vkattn_result supported(const Kernel &, const PlanLimits &, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result makePlan(const Kernel &, const Problem &, const PlanLimits &, Plan &out, vkattn_diagnostic *why);
[[nodiscard]] uint32_t dispatchesPerRowChunk(const Plan &);
[[nodiscard]] Dispatch dispatch(const Plan &, uint32_t index);
// The environment and what is gathered behind it, and the lanes of a workgroup that gathers.
constexpr uint32_t environmentLanes = 64;
[[nodiscard]] uint64_t environmentBytes(const Problem &);

[[nodiscard]] bool suits(const Problem &, const FlashTuning &);
void explain(const Plan &, vkattn_explanation &out);
void whyChosen(const Problem &, const FlashTuning &, char *text, size_t size);
[[nodiscard]] const char *whyNotChosen(const Plan &chosen, const FlashTuning &);

} // namespace flash

namespace decode {

[[nodiscard]] bool suits(const Problem &, const FlashTuning &);
void whyChosen(const Problem &, const FlashTuning &, char *text, size_t size);
[[nodiscard]] const char *whyNotChosen(const Plan &chosen, const FlashTuning &);

} // namespace decode

} // namespace vkattn
