// Layer norm and RMS norm: a workgroup takes a row.
#include "core/operations/operands.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

constexpr uint32_t cpuLanes = 16, gpuLanes = 128;

vkattn_result layOut(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *why) {
    plan.module = Module::norm;
    plan.lanes = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuLanes : gpuLanes;
    if (caps.maxStorageBuffersPerStage >= operationSlots) return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "a norm needs %u storage buffers; the device's maxPerStageDescriptorStorageBuffers is %u",
                operationSlots, caps.maxStorageBuffersPerStage);
}

void groups(const OperationPlan &, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = box.count[boxRow];
    out[1] = 1;
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

void dispatch(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    NormPush push{};
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.dims = o.inner;
    push.epsilon = o.epsilon;
    push.gammaStride = stridesOf(o, VKATTN_GAMMA).column;
    push.betaStride = stridesOf(o, VKATTN_BETA).column;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.yStrides = stridesOf(o, VKATTN_Y);
    push.residualStrides = stridesOf(o, VKATTN_RESIDUAL);
    push.sumStrides = stridesOf(o, VKATTN_SUM);
    setPush(d, push);

    struct Place {
        vkattn_role role;
        uint32_t slot, type, form;
        size_t base;
    };
    constexpr Place optional[] = {{VKATTN_RESIDUAL, slotResidual, typesResidual, formResidual, offsetof(NormPush, residualBase)},
                                  {VKATTN_GAMMA, slotGamma, typesGamma, formGamma, offsetof(NormPush, gammaBase)},
                                  {VKATTN_BETA, slotBeta, typesBeta, formBeta, offsetof(NormPush, betaBase)},
                                  {VKATTN_SUM, slotSum, typesSum, formSum, offsetof(NormPush, sumBase)}};
    const auto type = [&](vkattn_role role) { return static_cast<uint32_t>(o.tensor(role).dtype); };
    ConceptConstants constants{};
    constants.elementTypes = type(VKATTN_X) | type(VKATTN_Y) << typesOut;
    constants.form = o.norm == VKATTN_RMS_NORM ? formRms : 0;
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(NormPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(NormPush, yBase));
    for (const Place &place : optional) {
        d.operands[place.slot] = boxOperandOr(d.operands[slotX], o, place.role, box, place.base);
        if (!o.uses(place.role)) continue;
        constants.form |= place.form;
        constants.elementTypes |= type(place.role) << place.type;
    }
    d.key = pipelineKey(plan.module, plan.lanes, constants, {plan.lanes});
}

} // namespace

const Routine normRoutine = {
    .kind = VKATTN_NORM,
    .name = "norm",
    .zone = "vkattn norm",
    .cuttable = 1u << boxBatch | 1u << boxGroup | 1u << boxRow,
    .layOut = layOut,
    .groups = groups,
    .dispatch = dispatch,
};

} // namespace vkattn
