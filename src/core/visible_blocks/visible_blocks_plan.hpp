// VisibleBlocks x Caps -> VisibleBlocksPlan: how lists of visible blocks are made and cut to meet limits. Pure
// data and pure functions; no Vulkan call.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "problem/visible_blocks.hpp"

namespace vkattn {

struct VisibleBlocksPlan : Schedule {
    VisibleBlocks blocks;
    // The attention problem, its chunks and the set-up. Its own dispatches are not recorded.
    Plan forward;
    uint32_t pairTerms;
    uint32_t lanes; // of a workgroup

    [[nodiscard]] const Problem &problem() const { return forward.problem; }
};
static_assert(sizeof(VisibleBlocksPlan) < 6144, "plans live on the stack");

// UNSUPPORTED with the reason where the device's limits cannot be met.
[[nodiscard]] vkattn_result planVisibleBlocks(const VisibleBlocks &blocks, const PlanLimits &limits, VisibleBlocksPlan &out,
                                              vkattn_diagnostic *why);
// Says what the planner has chosen, and what the choice costs.
void explainVisibleBlocks(const VisibleBlocksPlan &plan, const PlanLimits &limits, vkattn_explanation &out);

} // namespace vkattn
