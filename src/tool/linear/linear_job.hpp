// One linear attention: the arrays that the arguments name, and the operation that they make. Made from headers
// alone, so that what disagrees is reported before anything large is read, computed or written.
#pragma once

#include "tool/arrays/job_arrays.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/options/linear_arguments.hpp"

#include <vkattn/operations.hpp>

namespace vkattn::tool {

struct LinearJob : JobArrays {
    vkattn_linear_attention linear{};
    vkattn_linear_gradient gradient{}; // structSize 0: no gradients are asked for
    // Of the job itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation gradients() {
        gradient.forward = &linear;
        return vkattn::operation(gradient);
    }
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this machine has.
[[nodiscard]] LinearJob describeJob(const LinearArguments &arguments);

} // namespace vkattn::tool
