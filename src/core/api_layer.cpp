// The C functions of vkattn.h that take a vkattn_layer: each of its operations in turn, with what
// lies between them in the workspace.
#include "core/api_common.hpp"
#include "core/operations/operation_plan.hpp"
#include "util/diagnostic.hpp"
#include "util/required.hpp"
#include "util/struct_size.hpp"

#include <algorithm>

using namespace vkattn;

namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;

vkattn_layer_plan emptyPlan() {
    vkattn_layer_plan plan{};
    plan.structSize = sizeof plan;
    return plan;
}

// What the steps need together. A step's own workspace lies behind what lies between the steps.
struct LayerNeeds {
    vkattn_requirements steps[VKATTN_LAYER_STEPS];
    uint64_t ownBegin = 0, ownBytes = 0, alignment = 4;
};

vkattn_result findNeeds(vkattn_context context, const vkattn_layer_plan &plan, LayerNeeds &needs, vkattn_diagnostic *why) {
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        vkattn_requirements &each = needs.steps[n];
        each = {};
        each.structSize = sizeof each;
        if (const auto r = vkattnQueryOperation(context, &plan.steps[n].operation, &each, why)) return r;
        needs.ownBytes = std::max(needs.ownBytes, each.workspaceBytes);
        needs.alignment = std::max(needs.alignment, each.workspaceAlignment);
    }
    needs.ownBegin = (plan.betweenBytes + needs.alignment - 1) / needs.alignment * needs.alignment;
    return VKATTN_OK;
}

bool isReady(vkattn_context context, const vkattn_operation &operation) {
    DeviceContext &device = *fromHandle(context);
    std::optional<PlanLimits> room;
    const PlanLimits &limits = device.planLimits(room);
    if (operation.kind == VKATTN_ATTENTION) {
        Problem problem;
        Plan plan;
        return makeProblem(operation.of.attention, problem, nullptr) == VKATTN_OK &&
               makePlan(problem, limits, plan, nullptr) == VKATTN_OK && device.pipelines().has(plan.pipelines());
    }
    Operation canonical;
    OperationPlan plan;
    return makeOperation(&operation, canonical, nullptr) == VKATTN_OK && planOperation(canonical, limits, plan, nullptr) == VKATTN_OK &&
           device.pipelines().has(plan.type->pipelines(plan));
}

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
vkattn_result checkBindings(const vkattn_layer_plan &plan, const vkattn_record &record, const LayerNeeds &needs, vkattn_diagnostic *why) {
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

void computeBarrier(const DeviceContext &context, VkCommandBuffer commands) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    context.table().CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory,
                                       0, nullptr, 0, nullptr);
}

vkattn_result recordLayer(vkattn_context context, const vkattn_layer_plan &plan, const vkattn_record &record, vkattn_diagnostic *why) {
    LayerNeeds needs;
    if (const auto r = findNeeds(context, plan, needs, why)) return r;
    if (!record.commandBuffer) return fail(why, invalid, "record.commandBuffer is VK_NULL_HANDLE");
    if (record.sliceIndex) return fail(why, invalid, "record.sliceIndex is %u, expected 0: a layer has one slice", record.sliceIndex);
    if (const auto r = checkBindings(plan, record, needs, why)) return r;
    for (uint32_t n = 0; n < plan.stepCount && !record.allowCompile; ++n)
        if (!isReady(context, plan.steps[n].operation))
            return fail(why, VKATTN_NOT_READY,
                        "nothing was recorded: pipelines of the layer's step '%s' are not compiled, and allowCompile is 0; call "
                        "vkattnPrewarmLayer on any thread before, or set allowCompile to 1",
                        plan.steps[n].name);
    const vkattn_binding *const workspace = find(record, VKATTN_WORKSPACE);
    bool ownInUse = false; // since the last barrier
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        const vkattn_layer_step &step = plan.steps[n];
        vkattn_binding bindings[VKATTN_LAYER_OPERANDS + 1];
        uint32_t count = 0;
        for (; count < step.operandCount; ++count) {
            bindings[count] = *find(record, step.operands[count].from);
            bindings[count].role = step.operands[count].role;
        }
        const bool own = needs.steps[n].workspaceBytes > 0;
        if (own)
            bindings[count++] = {VKATTN_WORKSPACE, workspace->buffer, workspace->offset + needs.ownBegin, workspace->size - needs.ownBegin};
        if (step.barrierBefore || (own && ownInUse)) {
            computeBarrier(*fromHandle(context), record.commandBuffer);
            ownInUse = false;
        }
        ownInUse = ownInUse || own;
        vkattn_record each = record;
        each.structSize = sizeof each;
        each.bindings = bindings;
        each.bindingCount = count;
        vkattn_diagnostic reason{};
        if (const auto r = vkattnRecordOperation(context, &step.operation, &each, &reason)) {
            (void)fail(why, r, "the layer's step '%s': %.400s", step.name, reason.message);
            if (why) why->vkResult = reason.vkResult;
            return r;
        }
    }
    return VKATTN_OK;
}

} // namespace

extern "C" {

vkattn_result vkattnQueryLayer(vkattn_context context, const vkattn_layer *layer, vkattn_requirements *out, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{context, "context"}, {out, "out"}}, why)) return call.result(r);
    if (const auto r = checkStructSize(out->structSize, sizeof *out, "out", "vkattn_requirements", why)) return call.result(r);
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = vkattnPlanLayer(layer, &plan, why)) return call.result(r);
    LayerNeeds needs;
    if (const auto r = findNeeds(context, plan, needs, why)) return r;
    vkattn_requirements all{};
    all.maxSlices = 1;
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        const vkattn_requirements &each = needs.steps[n];
        all.dispatchCount += each.dispatchCount;
        all.pipelineCount += each.pipelineCount;
        all.descriptorSetCount += each.descriptorSetCount;
        all.storageDescriptorCount += each.storageDescriptorCount;
        all.chunkCount = std::max(all.chunkCount, each.chunkCount);
        if (plan.steps[n].operation.kind != VKATTN_ATTENTION) continue;
        all.kernel = each.kernel;
        all.kernelName = each.kernelName;
        all.probabilityUnit = each.probabilityUnit;
        all.probabilityFloor = each.probabilityFloor;
    }
    all.workspaceBytes = needs.ownBegin + needs.ownBytes;
    all.workspaceAlignment = needs.alignment;
    writeStruct(*out, all);
    return VKATTN_OK;
}

vkattn_result vkattnPrewarmLayer(vkattn_context context, const vkattn_layer *layer, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{context, "context"}}, why)) return call.result(r);
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = vkattnPlanLayer(layer, &plan, why)) return call.result(r);
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        if (const auto r = vkattnPrewarmOperations(context, &plan.steps[n].operation, 1, why)) return r;
    return VKATTN_OK;
}

vkattn_result vkattnRecordLayer(vkattn_context context, const vkattn_layer *layer, const vkattn_record *given, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{context, "context"}, {given, "record"}}, why)) return call.result(r);
    if (const auto r = checkStructSize(given->structSize, sizeof *given, "record", "vkattn_record", why)) return call.result(r);
    vkattn_record room;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = vkattnPlanLayer(layer, &plan, why)) return call.result(r);
    return call.result(recordLayer(context, plan, completed(*given, room), why));
}

} // extern "C"
