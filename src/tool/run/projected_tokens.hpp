// --project-k and --project-v: before attention, the keys and values that matrices make of the tokens (Linformer).
#pragma once

#include "tool/arrays/job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"

#include <vector>

namespace vkattn::tool {

// Returns whether the file of a role is projected, and no operand of attention.
[[nodiscard]] bool isProjected(const Job &job, vkattn_role role);

// Loads the tokens and the matrices, and adds the projected keys and values to the arrays. With --verify they are verified by
// themselves. Returns what is to be said of them. Throws Failure.
[[nodiscard]] std::vector<ReportedProjection> projectTokens(const RunArguments &arguments, const OpenedRuntime &opened, Job &job,
                                                            HostArrays &arrays, std::vector<Verification> &verified);

} // namespace vkattn::tool
