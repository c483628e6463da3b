// --visible-blocks: before attention, the lists of the blocks of pairs that have anything to see
// (vkattn/visible_blocks.h), which attention then skips the others by.
#pragma once

#include "tool/arrays/job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"

namespace vkattn::tool {

// Makes the lists, adds them to the arrays, and returns what is to be said of them. `listed`: the job's problem,
// which becomes the attention that reads them. Throws Failure.
[[nodiscard]] ReportedBlocks makeVisibleBlocks(const RunArguments &arguments, const OpenedRuntime &opened, vkattn_problem &listed,
                                               HostArrays &arrays);

} // namespace vkattn::tool
