// One run: the arrays that the arguments name, and the problem that they make together. Made from
// headers (and the offsets of ragged sequences) alone, so that shapes which disagree are reported
// before anything large is read, computed or written.
#pragma once

#include "tool/arrays/job_arrays.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/arrays/token_projections.hpp"
#include "tool/options/arguments.hpp"

namespace vkattn::tool {

struct Job : JobArrays {
    vkattn_problem problem{};
    // With --kv-type: keys and values as the files have them, and their numbers once they are loaded.
    struct OfFile {
        vkattn_layout layout{};
        HostBuffer floats;
    } ofFiles[2];
    TokenProjections projections; // before attention, whose keys and values are then what they make
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this
// machine has.
[[nodiscard]] Job describeJob(const RunArguments &arguments);

// Describes what the arguments ask of an attention over queries and keys, of which the layouts'
// extents count: flags, numbers, and what the files of options hold. `pairs` becomes [batch, head,
// query, key], ragged [sequence, head, query, key] of the longest sequences; the offsets of ragged
// sequences are read. Throws Failure.
void describeAttention(const RunArguments &arguments, const Assumptions &assumed, std::vector<Input> &inputs, const Operand &q,
                       const Operand &k, vkattn_problem &problem, Extents &pairs);

// As describeJob, without outputs and without a look at memory. `assumed`: what `explain` takes in
// place of files.
[[nodiscard]] Job describeProblem(const RunArguments &arguments, const Assumptions &assumed = {});

} // namespace vkattn::tool
