// The arrays that a command computes on, whatever is computed: files that are read, files that are
// written.
#pragma once

#include "tool/arrays/inputs.hpp"
#include "tool/options/compute_arguments.hpp"

#include <vkattn/operations.h>

#include <string>
#include <vector>

namespace vkattn::tool {

struct OutputArray {
    vkattn_role role;
    std::string path;
    program::NpyType type;       // of the file
    std::vector<uint64_t> shape; // of the file
    vkattn_dtype dtype;          // in memory; C order
    uint64_t bytes;              // in memory
};

struct JobArrays {
    std::vector<Input> inputs;
    std::vector<OutputArray> outputs;
    std::vector<std::string> otherFiles{}; // that are read beside the inputs: no output may take their place
};

// Opens every file of the arguments that is read, in the order of operandNames. `hasHeads`: as Input
// takes it. Throws Failure.
[[nodiscard]] std::vector<Input> openInputs(const ComputeArguments &arguments, bool hasHeads = true);

[[nodiscard]] OutputArray outputArray(const ComputeArguments &arguments, const vkattn_operation &operation, vkattn_role role,
                                      vkattn_dtype dtype, std::vector<uint64_t> shape);

// What the arrays of the files take in memory.
[[nodiscard]] std::vector<NamedBytes> namedBytes(const JobArrays &arrays, const vkattn_operation &operation);

// Throws Failure with what the library says, and what was given: `given`, then the inputs.
[[noreturn]] void failInvalid(const vkattn_diagnostic &why, const JobArrays &arrays, std::vector<std::string> given = {});

} // namespace vkattn::tool
