// --kv-type: keys and values are made a cache of a small type before attention, which then reads the cache in place.
#pragma once

#include "tool/arrays/job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"

namespace vkattn::tool {

// Returns whether the file of a role goes into the cache, and is no operand of attention.
[[nodiscard]] bool isInCache(const Job &job, vkattn_role role);

// Loads keys and values and adds them to the arrays as the job's problem has them.
void addSmallCache(Job &job, HostArrays &arrays);

// Computes attention with the keys and values of the files, and compares the job's result with it. Throws Failure.
[[nodiscard]] ReportedCache compareWithFiles(const RunArguments &arguments, const OpenedRuntime &opened, Job &job,
                                             const HostArrays &arrays);

} // namespace vkattn::tool
