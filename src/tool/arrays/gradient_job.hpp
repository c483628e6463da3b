// One backward pass: the arrays that the arguments name, the forward pass that comes first, and the
// gradients. Made from headers (and the offsets of ragged sequences) alone, so that shapes which
// disagree are reported before anything large is read, computed or written.
#pragma once

#include "tool/arrays/job_arrays.hpp"
#include "tool/options/arguments.hpp"

#include <memory>

namespace vkattn::tool {

struct GradientJob : JobArrays {
    vkattn_problem forward{}; // with the statistics of its rows; the result is float32
    // The same, and whether --dweights are of weights after dropout: the forward pass writes none.
    vkattn_problem differentiated{};
    vkattn_attention_gradient gradient{}; // points at `differentiated`
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this
// machine has.
[[nodiscard]] std::unique_ptr<GradientJob> describeJob(const GradientArguments &arguments);

} // namespace vkattn::tool
