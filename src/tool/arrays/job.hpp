// One run: the arrays that the arguments name, and the problem that they make together. Made from
// headers (and the offsets of ragged sequences) alone, so that shapes which disagree are reported
// before anything large is read, computed or written.
#pragma once

#include "tool/arrays/inputs.hpp"
#include "tool/options/arguments.hpp"

#include <vector>

namespace vkattn::tool {

struct OutputArray {
    vkattn_role role;
    std::string path;
    NpyType type;                // of the file
    std::vector<uint64_t> shape; // of the file
    vkattn_dtype dtype;          // in memory; C order
    uint64_t bytes;              // in memory
};

struct Job {
    vkattn_problem problem{};
    std::vector<Input> inputs;
    std::vector<OutputArray> outputs;
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this
// machine has.
[[nodiscard]] Job describeJob(const RunArguments &arguments);

// The same for `explain`: without outputs, with shapes in place of files, and without a look at
// memory.
[[nodiscard]] Job describeJob(const ExplainArguments &arguments);

} // namespace vkattn::tool
