// Rotary embedding and append: what happens to the dims of each token on their own.
#include "core/operations/operands.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

constexpr uint32_t lanesOfTokens = 64;

// Of a workgroup row: pairs of pairs that are rotated, then pairs of dims that are copied.
uint32_t unitsOf(const Operation &o) {
    const uint32_t pairs = o.rotated / 2;
    return divideUp(pairs, 2) + divideUp(o.inner - o.rotated, 2);
}

void groups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    out[0] = divideUp(unitsOf(plan.operation), plan.lanes);
    out[1] = box.count[boxRow];
    out[2] = uint64_t{box.count[boxBatch]} * box.count[boxGroup];
}

template <class Push> void setTokens(Push &push, const Operation &o, const OperationBox &box) {
    push.groups = box.count[boxGroup];
    push.rows = box.count[boxRow];
    push.dims = o.inner;
    push.rowFirst = box.first[boxRow];
    push.start = o.start;
    push.cacheRows = o.cacheRows;
    push.xStrides = stridesOf(o, VKATTN_X);
    push.yStrides = stridesOf(o, VKATTN_Y);
}

ConceptConstants constantsOf(const Operation &o) {
    ConceptConstants constants{};
    constants.elementTypes = static_cast<uint32_t>(o.tensor(VKATTN_X).dtype) | static_cast<uint32_t>(o.tensor(VKATTN_Y).dtype) << typesOut;
    constants.form = (o.has(VKATTN_STARTS) ? formStarts : 0) | (o.appends() ? formAppend : 0) |
                     (o.has(VKATTN_POSITIONS) ? formPositions : 0) | (o.pairs == VKATTN_PAIRS_INTERLEAVED ? formInterleaved : 0) |
                     (o.flags & VKATTN_ROTARY_INVERSE ? formInverse : 0);
    return constants;
}

vkattn_result layOutRotary(OperationPlan &plan, const Caps &caps, vkattn_diagnostic *why) {
    plan.module = Module::rotary;
    plan.lanes = lanesOfTokens;
    if (caps.maxStorageBuffersPerStage >= operationSlots) return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "rotary embedding needs %u storage buffers; the device's maxPerStageDescriptorStorageBuffers is %u", operationSlots,
                caps.maxStorageBuffersPerStage);
}

void dispatchRotary(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    const Strides cos = stridesOf(o, VKATTN_COS), sin = stridesOf(o, VKATTN_SIN);
    RotaryPush push{};
    setTokens(push, o, box);
    push.pairs = o.rotated / 2;
    push.positions = o.tensor(VKATTN_COS).extent[2];
    push.cosRow = cos.row;
    push.cosColumn = cos.column;
    push.sinRow = sin.row;
    push.sinColumn = sin.column;
    push.positionsBatch = o.rows;
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(RotaryPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(RotaryPush, yBase));
    d.operands[slotCos] = boxOperand(o, VKATTN_COS, box, offsetof(RotaryPush, cosBase));
    d.operands[slotSin] = boxOperand(o, VKATTN_SIN, box, offsetof(RotaryPush, sinBase));
    d.operands[slotStarts] = boxOperandOr(d.operands[slotX], o, VKATTN_STARTS, box, offsetof(RotaryPush, startsBase));
    d.operands[slotPositions] = boxOperandOr(d.operands[slotX], o, VKATTN_POSITIONS, box, offsetof(RotaryPush, positionsBase));
    d.key = pipelineKey(plan.module, plan.lanes, constantsOf(o));
}

vkattn_result layOutAppend(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.module = Module::append;
    plan.lanes = lanesOfTokens;
    return VKATTN_OK;
}

void dispatchAppend(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    AppendPush push{};
    setTokens(push, o, box);
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(AppendPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(AppendPush, yBase));
    d.operands[slotAppendStarts] = boxOperandOr(d.operands[slotX], o, VKATTN_STARTS, box, offsetof(AppendPush, startsBase));
    d.operands[3] = standIn(d.operands[slotX]);
    d.key = pipelineKey(plan.module, plan.lanes, constantsOf(o));
}

constexpr uint32_t cuttableTokens = 1u << boxBatch | 1u << boxGroup | 1u << boxRow;

} // namespace

const Routine rotaryRoutine = {
    .kind = VKATTN_ROTARY,
    .name = "rotary",
    .zone = "vkattn rotary",
    .cuttable = cuttableTokens,
    .layOut = layOutRotary,
    .groups = groups,
    .dispatch = dispatchRotary,
};

const Routine appendRoutine = {
    .kind = VKATTN_APPEND,
    .name = "append",
    .zone = "vkattn append",
    .cuttable = cuttableTokens,
    .layOut = layOutAppend,
    .groups = groups,
    .dispatch = dispatchAppend,
};

} // namespace vkattn
