// vkattnExplain and vkattnExplainKernel without their argument checks.
#pragma once

#include "core/plan/kernel.hpp"
#include "core/plan/slices.hpp"
#include "core/plan/tuning/compile_cost.hpp"

#include <algorithm>

namespace vkattn {

[[nodiscard]] vkattn_result explainPlan(const Problem &problem, const PlanLimits &limits, vkattn_explanation &out, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result reasonOf(const Kernel &kernel, const Problem &problem, const PlanLimits &limits, vkattn_diagnostic *why);

// The groups and invocations of the first dispatch of pairs, which is among the first `most`.
inline void explainMainDispatch(const Schedule &plan, uint32_t most, vkattn_explanation &out) {
    for (uint32_t n = 0; n < std::min(plan.dispatchCount, most); ++n) {
        const Dispatch d = plan.type->dispatch(plan, n);
        if (!infoOf(d.key.module).main) continue;
        std::copy_n(d.groups, 3, out.groups);
        out.workgroupInvocations = d.key.constants[0];
        return;
    }
}

// What an explanation says of any plan, as if of one slice. The main dispatch is among the first `most`.
inline void explainWhole(const Schedule &plan, const PlanLimits &limits, uint32_t most, vkattn_explanation &out) {
    out = vkattn_explanation{};
    out.structSize = sizeof out;
    out.kernelName = plan.kernelName;
    out.form = "";
    out.splits = out.sliceCount = out.maxSlices = 1;
    out.largestSlice = 1;
    out.dispatchCount = plan.dispatchCount;
    out.pipelineCount = plan.type->pipelines(plan).size();
    out.workspaceBytes = plan.workspaceBytes;
    explainMainDispatch(plan, most, out);
    BoundOperand bound[maxBoundOperands];
    const uint32_t count = plan.type->operands(plan, bound);
    for (const BoundOperand *each = bound; each < bound + count; ++each)
        (each->output ? out.bytesWritten : out.bytesRead) += static_cast<double>(each->bytes.size());
    out.compileLimit = compileLimit(limits.caps);
}
// What a workspace holds is written once, and read once.
inline void explainWorkspaceTraffic(const Schedule &plan, vkattn_explanation &out) {
    out.bytesRead += static_cast<double>(plan.workspaceBytes);
    out.bytesWritten += static_cast<double>(plan.workspaceBytes);
}
// The slices of a plan that has them.
template <class AnyPlan> void explainSlices(const AnyPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    out.sliceCount = plan.slices;
    out.maxSlices = mostSlices(plan, limits);
    out.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    // Of very many slices no more than maxSlices have work.
    AnyPlan dealt = plan;
    dealt.slices = std::min(plan.slices, out.maxSlices);
    out.largestSlice = largestShare(sliceUnits(dealt));
}

// Of a plan that goes over chunks of a forward problem, in one slice.
inline void explainWhole(const Schedule &plan, const PlanLimits &limits, const Plan &forward, vkattn_explanation &out) {
    explainWhole(plan, limits, 4096, out);
    out.compileOperations = compileOperations(forward.tuning);
}
// The same of a plan with slices, as the backward pass and statistics have them.
template <class AnyPlan> void explainSchedule(const AnyPlan &plan, const PlanLimits &limits, const Plan &forward, vkattn_explanation &out) {
    explainWhole(plan, limits, forward, out);
    explainSlices(plan, limits, out);
}

} // namespace vkattn
