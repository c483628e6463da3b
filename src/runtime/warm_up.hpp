// A small problem with the same pipelines, for drivers that compile at the first dispatch.
#pragma once

#include "vkattn/runtime.hpp"

namespace vkattn {

// Returns the same problem with the fewest tokens, batch entries and sequences that leave its
// pipelines as they are. Returns the problem itself where no smaller one does.
[[nodiscard]] vkattn_problem smallProblemLike(const vkattn_problem &problem, const vkattn_caps &caps, uint64_t maxWorkspaceBytes,
                                              const std::string &tuning);

} // namespace vkattn
