// The C functions of vkattn.h that take a vkattn_operation: argument checks, then the layers below.
#include "core/api_common.hpp"
#include "core/gradient/gradient_plan.hpp"
#include "core/linear/linear_plan.hpp"
#include "core/linear_gradient/linear_gradient_plan.hpp"
#include "core/operations/operation_plan.hpp"
#include "core/statistics/statistics_plan.hpp"
#include "core/visible_blocks/visible_blocks_plan.hpp"
#include "core/vulkan/dispatch_list.hpp"
#include "core/vulkan/record.hpp"
#include "util/diagnostic.hpp"
#include "util/required.hpp"
#include "util/struct_size.hpp"

using namespace vkattn;

namespace {

// Makes the form of a description, plans the form, and hands the plan on: use(plan).
template <class Description, class Form, class AnyPlan, class Use>
vkattn_result withPlanOf(vkattn_result (*make)(const Description *, Form &, vkattn_diagnostic *),
                         vkattn_result (*makePlan)(const Form &, const PlanLimits &, AnyPlan &, vkattn_diagnostic *),
                         const Description *description, const PlanLimits &limits, vkattn_diagnostic *why, const Use &use) {
    Form form;
    if (const auto r = make(description, form, why)) return r;
    AnyPlan plan;
    if (const auto r = makePlan(form, limits, plan, why)) return r;
    return use(plan);
}

// The same of any operation but attention.
template <class Use>
vkattn_result withPlan(const vkattn_operation &description, const PlanLimits &limits, vkattn_diagnostic *why, const Use &use) {
    const auto of = description.of;
    if (description.kind == VKATTN_ATTENTION_GRADIENT)
        return withPlanOf(makeGradient, planGradient, of.attentionGradient, limits, why, use);
    if (description.kind == VKATTN_ATTENTION_STATISTICS)
        return withPlanOf(makeStatistics, planStatistics, of.attentionStatistics, limits, why, use);
    if (description.kind == VKATTN_VISIBLE_BLOCKS)
        return withPlanOf(makeVisibleBlocks, planVisibleBlocks, of.visibleBlocks, limits, why, use);
    if (description.kind == VKATTN_LINEAR_ATTENTION) return withPlanOf(makeLinear, planLinear, of.linearAttention, limits, why, use);
    if (description.kind == VKATTN_LINEAR_ATTENTION_GRADIENT)
        return withPlanOf(makeLinearGradient, planLinearGradient, of.linearGradient, limits, why, use);
    return withPlanOf(makeOperation, planOperation, &description, limits, why, use);
}

// What the calls ask of a plan of any kind.
WeightRounding roundingOf(const GradientPlan &plan) {
    return plan.rounding();
}
template <class AnyPlan> WeightRounding roundingOf(const AnyPlan &) {
    return {}; // no other kernel rounds what it multiplies
}

// An operation is one slice, and so are lists of blocks.
uint64_t persistentWorkspaceBytes(const OperationPlan &) {
    return 0;
}
uint64_t persistentWorkspaceBytes(const VisibleBlocksPlan &) {
    return 0;
}
uint32_t mostSlices(const OperationPlan &, const PlanLimits &) {
    return 1;
}
uint32_t mostSlices(const VisibleBlocksPlan &, const PlanLimits &) {
    return 1;
}

uint32_t chunksOf(const OperationPlan &plan) {
    return plan.dispatchCount / plan.steps;
}
uint32_t chunksOf(const GradientPlan &plan) {
    return plan.chunkCount();
}
uint32_t chunksOf(const StatisticsPlan &plan) {
    return plan.dispatchCount ? plan.forward.chunkCount() : 0;
}
uint32_t chunksOf(const VisibleBlocksPlan &plan) {
    return plan.dispatchCount ? plan.forward.chunkCount() : 0;
}
uint32_t chunksOf(const LinearPlan &plan) {
    return plan.dispatchCount ? plan.steps * plan.spans() : 0;
}
uint32_t chunksOf(const LinearGradientPlan &plan) {
    return plan.dispatchCount ? plan.batchSteps * plan.spans : 0;
}

void explain(const OperationPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainOperation(plan, limits, out);
}
void explain(const GradientPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainGradient(plan, limits, out);
}
void explain(const StatisticsPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainStatistics(plan, limits, out);
}
void explain(const VisibleBlocksPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainVisibleBlocks(plan, limits, out);
}
void explain(const LinearPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainLinear(plan, limits, out);
}
void explain(const LinearGradientPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainLinearGradient(plan, limits, out);
}

vkattn_result query(vkattn_context context, const vkattn_operation &operation, vkattn_requirements *given, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {given, "out"}}, why)) return r;
    if (const auto r = checkStructSize(*given, "out", "vkattn_requirements", why)) return r;
    std::optional<PlanLimits> room;
    const PlanLimits &limits = fromHandle(context)->planLimits(room);
    return withPlan(operation, limits, why, [&](const auto &plan) {
        vkattn_requirements out{};
        describeSchedule(plan, limits.caps, out);
        out.chunkCount = chunksOf(plan);
        out.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
        out.maxSlices = mostSlices(plan, limits);
        out.probabilityUnit = roundingOf(plan).unit;
        out.probabilityFloor = roundingOf(plan).floor;
        writeStruct(*given, out);
        return VKATTN_OK;
    });
}

vkattn_result prewarm(vkattn_context context, const vkattn_operation &operation, vkattn_diagnostic *why) {
    std::optional<PlanLimits> room;
    return withPlan(operation, fromHandle(context)->planLimits(room), why,
                    [&](const Schedule &plan) { return fromHandle(context)->pipelines().compile(plan.type->pipelines(plan), why); });
}

vkattn_result record(vkattn_context context, const vkattn_operation &operation, const vkattn_record *given, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {given, "record"}}, why)) return r;
    if (const auto r = checkStructSize(*given, "record", "vkattn_record", why)) return r;
    vkattn_record room;
    std::optional<PlanLimits> limits;
    return withPlan(operation, fromHandle(context)->planLimits(limits), why,
                    [&](const Schedule &plan) { return recordSchedule(*fromHandle(context), plan, completed(*given, room), why); });
}

} // namespace

extern "C" {

vkattn_result vkattnQueryOperation(vkattn_context context, const vkattn_operation *operation, vkattn_requirements *out,
                                   vkattn_diagnostic *why) {
    if (operation && operation->kind == VKATTN_ATTENTION) return vkattnQuery(context, operation->of.attention, out, why);
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{operation, "operation"}}, why)) return call.result(r);
    return call.result(query(context, *operation, out, why));
}

vkattn_result vkattnExplainOperation(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_operation *operation,
                                     vkattn_explanation *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{operation, "operation"}, {out, "out"}}, why)) return r;
    if (operation->kind == VKATTN_ATTENTION) return vkattnExplain(caps, options, operation->of.attention, out, why);
    if (const auto r = checkStructSize(*out, "out", "vkattn_explanation", why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, options, limits, why)) return r;
    return withPlan(*operation, limits, why, [&](const auto &plan) {
        vkattn_explanation explanation;
        explain(plan, limits, explanation);
        writeStruct(*out, explanation);
        return VKATTN_OK;
    });
}

vkattn_result vkattnPrewarmOperations(vkattn_context context, const vkattn_operation *operations, uint32_t operationCount,
                                      vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (const auto r =
            requireAll({{context, "context"}, {!operationCount || operations, "operations, with an operationCount above 0,"}}, why))
        return call.result(r);
    for (uint32_t n = 0; n < operationCount; ++n) {
        const bool attention = operations[n].kind == VKATTN_ATTENTION;
        const vkattn_result r =
            attention ? vkattnPrewarm(context, operations[n].of.attention, 1, why) : prewarm(context, operations[n], why);
        if (r != VKATTN_OK) return attention ? r : call.result(r);
    }
    return VKATTN_OK;
}

vkattn_result vkattnRecordOperation(vkattn_context context, const vkattn_operation *operation, const vkattn_record *given,
                                    vkattn_diagnostic *why) {
    if (operation && operation->kind == VKATTN_ATTENTION) return vkattnRecord(context, operation->of.attention, given, why);
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{operation, "operation"}}, why)) return call.result(r);
    return call.result(record(context, *operation, given, why));
}

vkattn_result vkattnListOperation(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_operation *operation,
                                  void *scratch, size_t scratchBytes, vkattn_dispatch_list *list, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{operation, "operation"}, {list, "list"}}, why)) return r;
    if (operation->kind == VKATTN_ATTENTION)
        return vkattnListDispatches(caps, options, operation->of.attention, scratch, scratchBytes, list, why);
    if (const auto r = checkStructSize(*list, "list", "vkattn_dispatch_list", why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, options, limits, why)) return r;
    return withPlan(*operation, limits, why, [&](const auto &plan) {
        vkattn_dispatch_list listed{};
        if (const auto r = writeDispatches(plan, limits.caps, scratch, scratchBytes, listed, why)) return r;
        listed.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
        listed.probabilityUnit = roundingOf(plan).unit;
        listed.probabilityFloor = roundingOf(plan).floor;
        writeStruct(*list, listed);
        return VKATTN_OK;
    });
}

} // extern "C"
