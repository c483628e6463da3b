// What the planner chooses and why, in numbers and words.
#include "core/kernels/explain.hpp"

#include "core/plan/slices.hpp"
#include "core/plan/tuning/compile_cost.hpp"
#include "core/plan/work.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

// Why AUTO did not choose a kernel that could run.
const char *whyNot(const Kernel &kernel, const Plan &chosen, const PlanLimits &limits) {
    if (chosen.problem.kernel != VKATTN_KERNEL_AUTO) return "another was asked for";
    if (passedOver(kernel, limits.caps)) return "it can run, but others were measured to be faster on this device";
    return kernel.whyNotChosen(chosen, limits.tuning);
}

} // namespace

vkattn_result explainPlan(const Problem &p, const PlanLimits &limits, vkattn_explanation &out, vkattn_diagnostic *why) {
    Plan plan;
    if (const auto r = makePlan(p, limits, plan, why)) return r;
    out = vkattn_explanation{};
    out.structSize = sizeof out;
    out.kernel = plan.kernel->id;
    out.kernelName = plan.kernel->name;
    out.dispatchCount = plan.dispatchCount;
    out.pipelineCount = plan.pipelines().size();
    out.chunkCount = plan.chunkCount();
    out.workspaceBytes = plan.workspaceBytes;
    out.splits = 1;
    // The first main dispatch is in the first chunk of rows, or, without keys, nowhere among what
    // may be 10^9.
    explainMainDispatch(plan, plan.setUpDispatches + plan.dispatchesPerRowChunk(), out);
    out.flopsFull = p.flops();
    out.flops = visibleFlops(p);
    for (const OperandRule &rule : operandTable)
        (rule.output ? out.bytesWritten : out.bytesRead) += static_cast<double>(p.bytesNeeded(rule.role));
    plan.kernel->explain(plan, out);
    out.sliceCount = p.slices;
    out.maxSlices = mostSlices(plan, limits);
    out.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    // Of very many slices no more than maxSlices have work: what the largest of those has bounds
    // it.
    Plan dealt = plan;
    if (p.slices > out.maxSlices) {
        Problem cut = p;
        cut.slices = out.maxSlices;
        if (makePlan(cut, limits, dealt, nullptr) != VKATTN_OK) dealt.dispatchCount = 0;
    }
    out.largestSlice = largestShare(dealt);
    out.compileLimit = compileLimit(limits.caps);
    const WeightRounding rounding = plan.kernel->weightRounding(plan);
    out.probabilityUnit = rounding.unit;
    out.probabilityFloor = rounding.floor;
    if (p.kernel == VKATTN_KERNEL_AUTO)
        plan.kernel->whyChosen(p, limits.tuning, out.choice, sizeof out.choice);
    else
        std::snprintf(out.choice, sizeof out.choice, "it was asked for");
    return VKATTN_OK;
}

vkattn_result reasonOf(const Kernel &kernel, const Problem &problem, const PlanLimits &limits, vkattn_diagnostic *why) {
    Plan chosen;
    if (const auto r = makePlan(problem, limits, chosen, why)) return r;
    if (why) why->message[0] = '\0';
    if (&kernel == chosen.kernel) return VKATTN_OK;
    Plan plan;
    if (const auto r = makePlanFor(kernel, problem, limits, plan, why)) return r;
    return fail(why, VKATTN_OK, "%s; would take %u dispatches and %llu bytes of workspace", whyNot(kernel, chosen, limits),
                plan.dispatchCount, static_cast<unsigned long long>(plan.workspaceBytes));
}

} // namespace vkattn
