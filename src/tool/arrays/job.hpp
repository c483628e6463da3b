// One run: the arrays that the arguments name, and the problem that they make together. Made from
// headers (and the offsets of ragged sequences) alone, so that shapes which disagree are reported
// before anything large is read, computed or written.
#pragma once

#include "tool/arrays/job_arrays.hpp"
#include "tool/options/arguments.hpp"

namespace vkattn::tool {

struct Job : JobArrays {
    vkattn_problem problem{};
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this
// machine has.
[[nodiscard]] Job describeJob(const RunArguments &arguments);

// The same for `explain`: without outputs, with shapes in place of files, and without a look at
// memory.
[[nodiscard]] Job describeJob(const ExplainArguments &arguments);

} // namespace vkattn::tool
