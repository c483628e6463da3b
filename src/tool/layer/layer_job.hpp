// One layer: the arrays that the arguments name, and the operations that they make together. Made
// from headers (and the offsets of ragged sequences) alone, so that shapes which disagree are
// reported before anything large is read, computed or written.
#pragma once

#include "tool/arrays/job_arrays.hpp"
#include "tool/options/layer_arguments.hpp"

#include <memory>

namespace vkattn::tool {

struct LayerJob : JobArrays {
    vkattn_problem options{};
    vkattn_layer layer{};
    // The position that each row of the rotary embedding's tables is for; empty: there is none.
    std::vector<uint32_t> tablePositions;
    // Points at the options and into itself.
    vkattn_layer_plan plan{};
};

// Of `vkattn layer`, and of `vkattn explain layer`, which has no outputs and takes no look at memory.
// Throws Failure where files are not as they must be, disagree, or need more memory than this
// machine has.
[[nodiscard]] std::unique_ptr<LayerJob> describeJob(LayerArguments arguments);

// The layout of a layer's role.
[[nodiscard]] vkattn_layout layoutOf(const LayerJob &job, vkattn_role role);

} // namespace vkattn::tool
