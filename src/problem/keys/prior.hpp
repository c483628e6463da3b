// Attention over other keys, which a problem goes on from (vkattn_problem::priorOut).
#pragma once

#include "vkattn/problem.h"

namespace vkattn {

struct Problem;

// Checks what a problem goes on from, of a problem whose options are known.
[[nodiscard]] vkattn_result checkPrior(const Problem &p, vkattn_diagnostic *why);

} // namespace vkattn
