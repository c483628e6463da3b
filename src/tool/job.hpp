// One run: the arrays that the arguments name, and the problem that they make together. Made from headers alone, so that shapes
// which disagree are reported before anything large is read, computed or written.
#pragma once

#include "arguments.hpp"
#include "inputs.hpp"

#include <vector>

namespace vkattn::tool {

struct OutputArray {
    vkattn_role role;
    std::string option, path;
    NpyType type;
    std::vector<uint64_t> shape; // of the file
    uint64_t bytes;              // of its data; C order
};

struct Job {
    vkattn_problem problem{};
    std::vector<Input> inputs;
    std::vector<OutputArray> outputs;
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this machine has.
[[nodiscard]] Job describeJob(const RunArguments &arguments);

} // namespace vkattn::tool
