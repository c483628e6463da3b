// A small problem with the same pipelines, for drivers that compile at the first dispatch.
#pragma once

#include "vkattn/runtime.hpp"

namespace vkattn {

// The same problem with as few tokens, batch entries and sequences as leave its pipelines as they
// are; itself where none do.
[[nodiscard]] vkattn_problem smallProblemLike(const vkattn_problem &problem, const vkattn_caps &caps, uint64_t maxWorkspaceBytes,
                                              const std::string &tuning);

} // namespace vkattn
