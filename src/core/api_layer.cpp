// The C functions of vkattn.h that take a layer: each of its operations in turn, with what
// lies between them in the workspace.
#include "core/api_common.hpp"
#include "core/operations/operation_plan.hpp"
#include "core/vulkan/record.hpp"
#include "util/diagnostic.hpp"
#include "util/required.hpp"
#include "util/struct_size.hpp"

#include <algorithm>

using namespace vkattn;

namespace {

vkattn_layer_plan emptyPlan() {
    vkattn_layer_plan plan{};
    plan.structSize = sizeof plan;
    return plan;
}

// The steps of a layer, planned on a device, and what they need together. A step's own workspace lies
// behind what lies between the steps.
struct PlannedLayer {
    const Schedule *steps[VKATTN_LAYER_STEPS];
    uint64_t ownBegin = 0, ownBytes = 0, alignment = 4;
    uint32_t chunkCount = 0; // of the step that has most
    Plan attention;
    OperationPlan operations[VKATTN_LAYER_STEPS - 1];

    [[nodiscard]] vkattn_result plan(const vkattn_layer_plan &layer, const PlanLimits &limits, vkattn_diagnostic *why) {
        uint32_t used = 0;
        for (uint32_t n = 0; n < layer.stepCount; ++n) {
            const vkattn_operation &operation = layer.steps[n].operation;
            if (operation.kind == VKATTN_ATTENTION) {
                Problem problem;
                if (const auto r = makeProblem(operation.of.attention, problem, why)) return r;
                if (const auto r = makePlan(problem, limits, attention, why)) return r;
                steps[n] = &attention;
                chunkCount = std::max(chunkCount, attention.chunkCount());
            } else {
                Operation canonical;
                if (const auto r = makeOperation(&operation, canonical, why)) return r;
                if (const auto r = planOperation(canonical, limits, operations[used], why)) return r;
                chunkCount = std::max(chunkCount, operations[used].dispatchCount / operations[used].steps);
                steps[n] = &operations[used++];
            }
            ownBytes = std::max(ownBytes, steps[n]->workspaceBytes);
            alignment = std::max<uint64_t>(alignment, steps[n]->workspaceAlignment);
        }
        ownBegin = (layer.betweenBytes + alignment - 1) / alignment * alignment;
        return VKATTN_OK;
    }
};

const vkattn_binding *find(const vkattn_record &record, vkattn_role role) {
    const vkattn_binding *const end = record.bindings + record.bindingCount;
    const vkattn_binding *const found = std::find_if(record.bindings, end, [&](const vkattn_binding &each) { return each.role == role; });
    return found == end ? nullptr : found;
}

bool usesRole(const vkattn_layer_plan &plan, vkattn_role role) {
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        for (uint32_t o = 0; o < plan.steps[n].operandCount; ++o)
            if (plan.steps[n].operands[o].from == role) return true;
    return role == VKATTN_WORKSPACE;
}

// Every role of the layer is bound once, and nothing else is.
vkattn_result checkBindings(const vkattn_layer_plan &plan, const vkattn_record &record, const PlannedLayer &needs, vkattn_diagnostic *why) {
    if (!record.bindings && record.bindingCount)
        return fail(why, invalid, "record.bindings is NULL with bindingCount %u", record.bindingCount);
    for (uint32_t n = 0; n < record.bindingCount; ++n) {
        const vkattn_role role = record.bindings[n].role;
        if (!usesRole(plan, role))
            return fail(why, invalid, "binding %u has role %d, which the layer does not use", n, static_cast<int>(role));
        if (find(record, role) != &record.bindings[n]) return fail(why, invalid, "role %d is bound twice", static_cast<int>(role));
    }
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        for (uint32_t o = 0; o < plan.steps[n].operandCount; ++o)
            if (const vkattn_role from = plan.steps[n].operands[o].from; !find(record, from))
                return fail(why, invalid, "role %d is not bound: the layer's step '%s' uses it", static_cast<int>(from),
                            plan.steps[n].name);
    const uint64_t bytes = needs.ownBegin + needs.ownBytes;
    const vkattn_binding *const workspace = find(record, VKATTN_WORKSPACE);
    if (workspace && (workspace->size < bytes || workspace->offset % needs.alignment))
        return fail(why, invalid, "the workspace has %llu bytes at offset %llu, expected at least %llu at a multiple of %llu",
                    static_cast<unsigned long long>(workspace->size), static_cast<unsigned long long>(workspace->offset),
                    static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(needs.alignment));
    return VKATTN_OK;
}

vkattn_result recordLayer(DeviceContext &context, const vkattn_layer_plan &layer, const vkattn_record &record, vkattn_diagnostic *why) {
    std::optional<PlanLimits> room;
    PlannedLayer planned;
    if (const auto r = planned.plan(layer, context.planLimits(room), why)) return r;
    if (!record.commandBuffer) return fail(why, invalid, "record.commandBuffer is VK_NULL_HANDLE");
    if (record.sliceIndex) return fail(why, invalid, "record.sliceIndex is %u, expected 0: a layer has one slice", record.sliceIndex);
    if (const auto r = checkBindings(layer, record, planned, why)) return r;
    for (uint32_t n = 0; n < layer.stepCount && !record.allowCompile; ++n)
        if (!context.pipelines().has(planned.steps[n]->type->pipelines(*planned.steps[n])))
            return fail(why, VKATTN_NOT_READY,
                        "nothing was recorded: pipelines of the layer's step '%s' are not compiled, and allowCompile is 0; call "
                        "vkattnPrewarmLayer or vkattnPrewarmLatentLayer on any thread before, or set allowCompile to 1",
                        layer.steps[n].name);
    const vkattn_binding *const workspace = find(record, VKATTN_WORKSPACE);
    bool ownInUse = false; // since the last barrier
    for (uint32_t n = 0; n < layer.stepCount; ++n) {
        const vkattn_layer_step &step = layer.steps[n];
        vkattn_binding bindings[VKATTN_LAYER_OPERANDS + 1];
        uint32_t count = 0;
        for (; count < step.operandCount; ++count) {
            bindings[count] = *find(record, step.operands[count].from);
            bindings[count].role = step.operands[count].role;
        }
        const bool own = planned.steps[n]->workspaceBytes > 0;
        if (own)
            bindings[count++] = {VKATTN_WORKSPACE, workspace->buffer, workspace->offset + planned.ownBegin,
                                 workspace->size - planned.ownBegin};
        if (step.barrierBefore || (own && ownInUse)) {
            computeBarrier(context.table(), record.commandBuffer);
            ownInUse = false;
        }
        ownInUse = ownInUse || own;
        vkattn_record each = record;
        each.bindings = bindings;
        each.bindingCount = count;
        vkattn_diagnostic reason{};
        if (const auto r = recordSchedule(context, *planned.steps[n], each, &reason)) {
            (void)fail(why, r, "the layer's step '%s': %.400s", step.name, reason.message);
            if (why) why->vkResult = reason.vkResult;
            return r;
        }
    }
    return VKATTN_OK;
}

vkattn_result queryLayer(DeviceContext &context, const vkattn_layer_plan &layer, vkattn_requirements &out, vkattn_diagnostic *why) {
    std::optional<PlanLimits> room;
    const PlanLimits &limits = context.planLimits(room);
    PlannedLayer planned;
    if (const auto r = planned.plan(layer, limits, why)) return r;
    out.maxSlices = 1;
    for (uint32_t n = 0; n < layer.stepCount; ++n) {
        vkattn_requirements each{};
        describeSchedule(*planned.steps[n], limits.caps, each);
        out.dispatchCount += each.dispatchCount;
        out.pipelineCount += each.pipelineCount;
        out.descriptorSetCount += each.descriptorSetCount;
        out.storageDescriptorCount += each.storageDescriptorCount;
    }
    const Plan &attention = planned.attention;
    out.chunkCount = planned.chunkCount;
    out.kernel = attention.kernel->id;
    out.kernelName = attention.kernelName;
    const WeightRounding rounding = attention.kernel->weightRounding(attention);
    out.probabilityUnit = rounding.unit;
    out.probabilityFloor = rounding.floor;
    out.workspaceBytes = planned.ownBegin + planned.ownBytes;
    out.workspaceAlignment = planned.alignment;
    return VKATTN_OK;
}

vkattn_result prewarmLayer(DeviceContext &context, const vkattn_layer_plan &layer, vkattn_diagnostic *why) {
    std::optional<PlanLimits> room;
    PlannedLayer planned;
    if (const auto r = planned.plan(layer, context.planLimits(room), why)) return r;
    for (uint32_t n = 0; n < layer.stepCount; ++n)
        if (const auto r = context.pipelines().compile(planned.steps[n]->type->pipelines(*planned.steps[n]), why)) return r;
    return VKATTN_OK;
}

vkattn_result planOf(const vkattn_layer *layer, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    return vkattnPlanLayer(layer, &plan, why);
}
vkattn_result planOf(const vkattn_latent_layer *layer, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    return vkattnPlanLatentLayer(layer, &plan, why);
}

template <class Layer> vkattn_result query(vkattn_context context, const Layer *layer, vkattn_requirements *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {out, "out"}}, why)) return r;
    if (const auto r = checkStructSize(out->structSize, sizeof *out, "out", "vkattn_requirements", why)) return r;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = planOf(layer, plan, why)) return r;
    vkattn_requirements all{};
    if (const auto r = queryLayer(*fromHandle(context), plan, all, why)) return r;
    writeStruct(*out, all);
    return VKATTN_OK;
}

template <class Layer> vkattn_result prewarm(vkattn_context context, const Layer *layer, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}}, why)) return r;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = planOf(layer, plan, why)) return r;
    return prewarmLayer(*fromHandle(context), plan, why);
}

template <class Layer>
vkattn_result record(vkattn_context context, const Layer *layer, const vkattn_record *given, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {given, "record"}}, why)) return r;
    if (const auto r = checkStructSize(given->structSize, sizeof *given, "record", "vkattn_record", why)) return r;
    vkattn_record room;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = planOf(layer, plan, why)) return r;
    return recordLayer(*fromHandle(context), plan, completed(*given, room), why);
}

} // namespace

extern "C" {

vkattn_result vkattnQueryLayer(vkattn_context context, const vkattn_layer *layer, vkattn_requirements *out, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(query(context, layer, out, why));
}
vkattn_result vkattnPrewarmLayer(vkattn_context context, const vkattn_layer *layer, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(prewarm(context, layer, why));
}
vkattn_result vkattnRecordLayer(vkattn_context context, const vkattn_layer *layer, const vkattn_record *given, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(record(context, layer, given, why));
}

vkattn_result vkattnQueryLatentLayer(vkattn_context context, const vkattn_latent_layer *layer, vkattn_requirements *out,
                                     vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(query(context, layer, out, why));
}
vkattn_result vkattnPrewarmLatentLayer(vkattn_context context, const vkattn_latent_layer *layer, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(prewarm(context, layer, why));
}
vkattn_result vkattnRecordLatentLayer(vkattn_context context, const vkattn_latent_layer *layer, const vkattn_record *given,
                                      vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(record(context, layer, given, why));
}

} // extern "C"
