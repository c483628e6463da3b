// Keys and values of a cache that come before those of a command: ONNX Attention's past_key and past_value.
#pragma once

#include "tool/arrays/inputs.hpp"
#include "tool/arrays/shapes.hpp"

namespace vkattn::tool {

// Makes the arrays of --past-k and --past-v the first segment of a problem, and k and v the second: `k` and `v` become
// what the problem begins with, and inputs take the roles that they have in the problem. An array without tokens is left
// out. Throws Failure where shapes or types do not go with k and v.
void takePast(std::vector<Input> &inputs, Operand &k, Operand &v, vkattn_problem &problem);

// Describes the arrays of --state-in-out and --state-in-lse, whose shapes are those of problem.out and its rows. Throws
// Failure where they are not.
void takePrior(const std::vector<Input> &inputs, vkattn_problem &problem);

} // namespace vkattn::tool
