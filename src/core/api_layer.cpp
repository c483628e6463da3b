// The C functions of vkattn.h that take a layer or its gradients: each of the operations in turn, with
// what lies between them in the workspace.
#include "core/api_common.hpp"
#include "core/gradient/gradient_plan.hpp"
#include "core/operations/operation_plan.hpp"
#include "core/vulkan/record.hpp"
#include "problem/layers/layer_parts.hpp"
#include "util/diagnostic.hpp"
#include "util/required.hpp"
#include "util/struct_size.hpp"

#include <algorithm>
#include <optional>
#include <utility>

using namespace vkattn;

namespace {

vkattn_result planOf(const vkattn_layer *layer, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    return vkattnPlanLayer(layer, &plan, why);
}
vkattn_result planOf(const vkattn_latent_layer *layer, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    return vkattnPlanLatentLayer(layer, &plan, why);
}
vkattn_result planOf(const vkattn_layer_gradient *gradient, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    return vkattnPlanLayerGradient(gradient, &plan, why);
}

// A latent layer is one part, as the gradients of a layer are.
template <class Layer> class WholeLayer {
  public:
    WholeLayer(const Layer &layer, uint64_t) : layer_(layer) {}
    [[nodiscard]] uint32_t count() const { return 1; }
    [[nodiscard]] vkattn_result plan(uint32_t, vkattn_layer_plan &plan, vkattn_diagnostic *why) const { return planOf(&layer_, plan, why); }
    [[nodiscard]] uint64_t skippedBytes(vkattn_role) const { return 0; }

  private:
    const Layer &layer_;
};
template <class Layer> struct PartsOfLayer { using Type = WholeLayer<Layer>; };
template <> struct PartsOfLayer<vkattn_layer> { using Type = LayerParts; };

vkattn_layer_plan emptyPlan() {
    vkattn_layer_plan plan{};
    plan.structSize = sizeof plan;
    return plan;
}

// The steps of a part of a layer, planned on a device, and what they need together. A step's own
// workspace lies behind what lies between the steps, and takes what that has left of the limit.
struct PlannedPart {
    const Schedule *steps[VKATTN_LAYER_STEPS];
    uint64_t ownBegin, ownBytes, alignment;
    uint32_t chunkCount; // of the step that has most
    // Attention's step, which is either of the two.
    Plan attention;
    GradientPlan gradient;
    OperationPlan operations[VKATTN_LAYER_STEPS - 1];

    [[nodiscard]] vkattn_result plan(const vkattn_layer_plan &layer, const PlanLimits &whole, vkattn_diagnostic *why) {
        ownBytes = 0, alignment = 4, chunkCount = 0;
        PlanLimits limits = whole;
        limits.maxWorkspaceBytes -= std::min(layer.betweenBytes, whole.maxWorkspaceBytes / 2);
        uint32_t used = 0;
        for (uint32_t n = 0; n < layer.stepCount; ++n) {
            const vkattn_operation &operation = layer.steps[n].operation;
            if (operation.kind == VKATTN_ATTENTION) {
                Problem problem;
                if (const auto r = makeProblem(operation.of.attention, problem, why)) return r;
                if (const auto r = makePlan(problem, limits, attention, why)) return r;
                steps[n] = &attention;
                chunkCount = std::max(chunkCount, attention.chunkCount());
            } else if (operation.kind == VKATTN_ATTENTION_GRADIENT) {
                Gradient canonical;
                if (const auto r = makeGradient(operation.of.attentionGradient, canonical, why)) return r;
                if (const auto r = planGradient(canonical, limits, gradient, why)) return r;
                steps[n] = &gradient;
                chunkCount = std::max(chunkCount, gradient.chunkCount());
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
vkattn_result checkBindings(const vkattn_layer_plan &plan, const vkattn_record &record, const vkattn_requirements &needs,
                            vkattn_diagnostic *why) {
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
    const vkattn_binding *const workspace = find(record, VKATTN_WORKSPACE);
    if (!workspace && needs.workspaceBytes)
        return fail(why, invalid, "role %d is not bound: the layer needs a workspace", static_cast<int>(VKATTN_WORKSPACE));
    if (workspace && (workspace->size < needs.workspaceBytes || workspace->offset % needs.workspaceAlignment))
        return fail(why, invalid, "the workspace has %llu bytes at offset %llu, expected at least %llu at a multiple of %llu",
                    static_cast<unsigned long long>(workspace->size), static_cast<unsigned long long>(workspace->offset),
                    static_cast<unsigned long long>(needs.workspaceBytes), static_cast<unsigned long long>(needs.workspaceAlignment));
    return VKATTN_OK;
}

// A layer on a context's device: its parts in turn.
template <class Layer> class DeviceLayer {
  public:
    // The layer is valid.
    DeviceLayer(DeviceContext &context, const Layer &layer)
        : context_(context), limits_(context.planLimits(room_)), parts_(layer, limits_.maxWorkspaceBytes / 2) {}

    // Adds up what the parts need.
    [[nodiscard]] vkattn_result query(vkattn_requirements &out, vkattn_diagnostic *why) {
        out.maxSlices = 1;
        out.workspaceAlignment = 1;
        return eachPart(why, [&](const PlannedPart &part, const vkattn_layer_plan &plan) {
            for (uint32_t n = 0; n < plan.stepCount; ++n) {
                vkattn_requirements each{};
                describeSchedule(*part.steps[n], limits_.caps, each);
                out.dispatchCount += each.dispatchCount;
                out.pipelineCount += each.pipelineCount;
                out.descriptorSetCount += each.descriptorSetCount;
                out.storageDescriptorCount += each.storageDescriptorCount;
            }
            out.chunkCount += part.chunkCount;
            takeKernel(part, plan, out);
            out.workspaceBytes = std::max(out.workspaceBytes, part.ownBegin + part.ownBytes);
            out.workspaceAlignment = std::max(out.workspaceAlignment, part.alignment);
            return VKATTN_OK;
        });
    }

    [[nodiscard]] vkattn_result prewarm(vkattn_diagnostic *why) {
        return eachPart(why, [&](const PlannedPart &part, const vkattn_layer_plan &plan) {
            for (uint32_t n = 0; n < plan.stepCount; ++n)
                if (const auto r = context_.pipelines().compile(part.steps[n]->type->pipelines(*part.steps[n]), why)) return r;
            return VKATTN_OK;
        });
    }

    // `whole`: the layer's plan in one part, which has every role.
    [[nodiscard]] vkattn_result record(const vkattn_layer_plan &whole, const vkattn_record &record, vkattn_diagnostic *why) {
        vkattn_requirements needs{};
        if (const auto r = query(needs, why)) return r;
        if (!record.commandBuffer) return fail(why, invalid, "record.commandBuffer is VK_NULL_HANDLE");
        if (record.sliceIndex) return fail(why, invalid, "record.sliceIndex is %u, expected 0: a layer has one slice", record.sliceIndex);
        if (const auto r = checkBindings(whole, record, needs, why)) return r;
        if (!record.allowCompile)
            if (const auto r =
                    eachPart(why, [&](const PlannedPart &part, const vkattn_layer_plan &plan) { return isReady(part, plan, why); }))
                return r;
        bool first = true;
        return eachPart(why, [&](const PlannedPart &part, const vkattn_layer_plan &plan) {
            // The parts share the workspace.
            if (!std::exchange(first, false)) computeBarrier(context_.table(), record.commandBuffer);
            return recordPart(part, plan, record, why);
        });
    }

  private:
    template <class Visit> [[nodiscard]] vkattn_result eachPart(vkattn_diagnostic *why, const Visit &visit) {
        for (uint32_t part = 0; part < parts_.count(); ++part) {
            if (const auto r = plan(part, why)) return r;
            if (const auto r = visit(planned_, plan_)) return r;
        }
        return VKATTN_OK;
    }

    // What computes attention, or its gradient; where neither is a step, what computes the first one.
    static void takeKernel(const PlannedPart &part, const vkattn_layer_plan &plan, vkattn_requirements &out) {
        out.kernelName = part.steps[0]->kernelName;
        for (uint32_t n = 0; n < plan.stepCount; ++n) {
            if (part.steps[n] == &part.gradient) out.kernelName = part.gradient.kernelName;
            if (part.steps[n] != &part.attention) continue;
            const WeightRounding rounding = part.attention.kernel->weightRounding(part.attention);
            out.kernel = part.attention.kernel->id;
            out.kernelName = part.attention.kernelName;
            out.probabilityUnit = std::max(out.probabilityUnit, rounding.unit);
            out.probabilityFloor = std::max(out.probabilityFloor, rounding.floor);
        }
    }

    // A layer of one part is planned once for all that a call does with it.
    [[nodiscard]] vkattn_result plan(uint32_t part, vkattn_diagnostic *why) {
        if (plannedPart_ == part) return VKATTN_OK;
        plannedPart_.reset();
        plan_ = emptyPlan();
        if (const auto r = parts_.plan(part, plan_, why)) return r;
        if (const auto r = planned_.plan(plan_, limits_, why)) return r;
        plannedPart_ = part;
        return VKATTN_OK;
    }

    [[nodiscard]] vkattn_result isReady(const PlannedPart &part, const vkattn_layer_plan &plan, vkattn_diagnostic *why) const {
        for (uint32_t n = 0; n < plan.stepCount; ++n)
            if (!context_.pipelines().has(part.steps[n]->type->pipelines(*part.steps[n])))
                return fail(why, VKATTN_NOT_READY,
                            "nothing was recorded: pipelines of the layer's step '%s' are not compiled, and allowCompile is 0; call "
                            "vkattnPrewarmLayer, vkattnPrewarmLatentLayer or vkattnPrewarmLayerGradient on any thread before, or set "
                            "allowCompile to 1",
                            plan.steps[n].name);
        return VKATTN_OK;
    }

    [[nodiscard]] vkattn_result recordPart(const PlannedPart &part, const vkattn_layer_plan &plan, const vkattn_record &record,
                                           vkattn_diagnostic *why) {
        const vkattn_binding *const workspace = find(record, VKATTN_WORKSPACE);
        bool ownInUse = false; // since the last barrier
        for (uint32_t n = 0; n < plan.stepCount; ++n) {
            const vkattn_layer_step &step = plan.steps[n];
            vkattn_binding bindings[VKATTN_LAYER_OPERANDS + 1];
            uint32_t count = 0;
            for (; count < step.operandCount; ++count) {
                const vkattn_role from = step.operands[count].from;
                vkattn_binding &binding = bindings[count] = *find(record, from);
                const uint64_t skipped = std::min<uint64_t>(parts_.skippedBytes(from), binding.size);
                binding.offset += skipped, binding.size -= skipped;
                binding.role = step.operands[count].role;
            }
            const bool own = part.steps[n]->workspaceBytes > 0;
            if (own)
                bindings[count++] = {VKATTN_WORKSPACE, workspace->buffer, workspace->offset + part.ownBegin,
                                     workspace->size - part.ownBegin};
            if (step.barrierBefore || (own && ownInUse)) {
                computeBarrier(context_.table(), record.commandBuffer);
                ownInUse = false;
            }
            ownInUse = ownInUse || own;
            vkattn_record each = record;
            each.bindings = bindings;
            each.bindingCount = count;
            vkattn_diagnostic reason{};
            if (const auto r = recordSchedule(context_, *part.steps[n], each, &reason)) {
                (void)fail(why, r, "the layer's step '%s': %.400s", step.name, reason.message);
                if (why) why->vkResult = reason.vkResult;
                return r;
            }
        }
        return VKATTN_OK;
    }

    DeviceContext &context_;
    std::optional<PlanLimits> room_;
    const PlanLimits &limits_;
    typename PartsOfLayer<Layer>::Type parts_;
    // The part that was planned last. Steps point into the plan.
    std::optional<uint32_t> plannedPart_;
    vkattn_layer_plan plan_{};
    PlannedPart planned_;
};

template <class Layer> vkattn_result query(vkattn_context context, const Layer *layer, vkattn_requirements *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {out, "out"}}, why)) return r;
    if (const auto r = checkStructSize(*out, "out", "vkattn_requirements", why)) return r;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = planOf(layer, plan, why)) return r;
    vkattn_requirements all{};
    Layer given;
    if (const auto r = DeviceLayer<Layer>(*fromHandle(context), completed(*layer, given)).query(all, why)) return r;
    writeStruct(*out, all);
    return VKATTN_OK;
}

template <class Layer> vkattn_result prewarm(vkattn_context context, const Layer *layer, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}}, why)) return r;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = planOf(layer, plan, why)) return r;
    Layer given;
    return DeviceLayer<Layer>(*fromHandle(context), completed(*layer, given)).prewarm(why);
}

template <class Layer>
vkattn_result record(vkattn_context context, const Layer *layer, const vkattn_record *given, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {given, "record"}}, why)) return r;
    if (const auto r = checkStructSize(*given, "record", "vkattn_record", why)) return r;
    vkattn_record room;
    vkattn_layer_plan plan = emptyPlan();
    if (const auto r = planOf(layer, plan, why)) return r;
    Layer whole;
    return DeviceLayer<Layer>(*fromHandle(context), completed(*layer, whole)).record(plan, completed(*given, room), why);
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

vkattn_result vkattnQueryLayerGradient(vkattn_context context, const vkattn_layer_gradient *gradient, vkattn_requirements *out,
                                       vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(query(context, gradient, out, why));
}
vkattn_result vkattnPrewarmLayerGradient(vkattn_context context, const vkattn_layer_gradient *gradient, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(prewarm(context, gradient, why));
}
vkattn_result vkattnRecordLayerGradient(vkattn_context context, const vkattn_layer_gradient *gradient, const vkattn_record *given,
                                        vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(record(context, gradient, given, why));
}

} // extern "C"
