// The dispatches of setup/prior.comp: what the rows of a chunk go on from (vkattn_problem::priorOut).
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"

namespace vkattn {

// `form`: of interop.h. `workspace`: what is written, from its first byte on.
void makePrior(const Plan &plan, const Chunk &c, uint32_t form, const Operand &workspace, Dispatch &d);

} // namespace vkattn
