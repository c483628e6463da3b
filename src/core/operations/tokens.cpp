// Rotary embedding and append: what happens to the dims of each token on their own.
#include "core/operations/operands.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t lanesOfTokens = 64;

// Of a workgroup row: pairs of pairs that are rotated, then pairs of dims that are copied. Of a small type: blocks, or four neighbours; of
// a row with one scale the whole row.
uint32_t unitsOf(const Operation &o) {
    const vkattn_dtype type = o.tensor(VKATTN_Y).dtype;
    if (type == VKATTN_INT8) return 1;
    if (isSmallType(type)) return divideUp(o.inner, isBlockType(type) ? elementsOfBlock(type) : 4);
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
    constants.elementTypes = typesOf(o);
    constants.form = (o.has(VKATTN_STARTS) ? formStarts : 0) | (o.appends() ? formAppend : 0) |
                     (o.has(VKATTN_POSITIONS) ? formPositions : 0) | (o.pairs == VKATTN_PAIRS_INTERLEAVED ? formInterleaved : 0) |
                     (o.flags & VKATTN_ROTARY_INVERSE ? formInverse : 0) | (o.ring() ? formRing : 0) | (o.poolPages ? formPages : 0);
    return constants;
}

// Gathering the angles takes an invocation a pair.
void rotaryGroups(const OperationPlan &plan, const OperationBox &box, uint64_t (&out)[3]) {
    groups(plan, box, out);
    if (plan.plain) out[0] = std::max<uint64_t>(out[0], divideUp(plan.operation.rotated / 2, lanesOfTokens));
}

vkattn_result layOutRotary(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.gatherSteps = plan.plain ? 1 : 0;
    plan.steps = plan.gatherSteps + 1;
    plan.lanes = lanesOfTokens;
    return VKATTN_OK;
}

// [batch][token][cosines, sines] of a box.
uint64_t angleBytes(const OperationPlan &plan, const OperationBox &box) {
    return plan.plain ? uint64_t{4} * box.count[boxBatch] * box.count[boxRow] * plan.operation.rotated : 0;
}

template <class Push> void setTables(Push &push, const Operation &o) {
    const Strides cos = stridesOf(o, VKATTN_COS), sin = stridesOf(o, VKATTN_SIN);
    push.pairs = o.rotated / 2;
    push.positions = o.tensor(VKATTN_COS).extent[2];
    push.cosRow = cos.row;
    push.cosColumn = cos.column;
    push.sinRow = sin.row;
    push.sinColumn = sin.column;
}

void gatherAngles(const OperationPlan &plan, const OperationBox &box, Dispatch &d) {
    const Operation &o = plan.operation;
    const bool positions = o.has(VKATTN_POSITIONS);
    AnglesPush push{};
    push.rows = box.count[boxRow];
    push.rowFirst = box.first[boxRow];
    push.start = o.start;
    setTables(push, o);
    push.whereBatch = positions ? o.rows : 1;
    setPush(d, push);
    d.operands[slotCos] = boxOperand(o, VKATTN_COS, box, offsetof(AnglesPush, cosBase));
    d.operands[slotSin] = boxOperand(o, VKATTN_SIN, box, offsetof(AnglesPush, sinBase));
    d.operands[slotAnglesWhere] =
        boxOperandOr(d.operands[slotCos], o, positions ? VKATTN_POSITIONS : VKATTN_STARTS, box, offsetof(AnglesPush, whereBase));
    d.operands[slotAnglesOut] = gathered(0, angleBytes(plan, box), true);
    ConceptConstants constants{};
    constants.form = positions ? formPositions : o.has(VKATTN_STARTS) ? formStarts : 0;
    d.key = pipelineKey(Module::angles, lanesOfTokens, constants);
    setGroups(d, {divideUp(push.pairs, lanesOfTokens), box.count[boxRow], box.count[boxBatch]});
}

void dispatchRotary(const OperationPlan &plan, const OperationBox &box, uint32_t step, Dispatch &d) {
    if (step < plan.gatherSteps) return gatherAngles(plan, box, d);
    const Operation &o = plan.operation;
    RotaryPush push{};
    setTokens(push, o, box);
    setTables(push, o);
    push.positionsBatch = o.rows;
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(RotaryPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(RotaryPush, yBase));
    const uint32_t starts = plan.plain ? slotPlainStarts : slotStarts;
    d.operands[starts] = boxOperandOr(d.operands[slotX], o, VKATTN_STARTS, box, offsetof(RotaryPush, startsBase));
    if (plan.plain) {
        d.operands[slotAngles] = gathered(0, angleBytes(plan, box), false);
    } else {
        d.operands[slotCos] = boxOperand(o, VKATTN_COS, box, offsetof(RotaryPush, cosBase));
        d.operands[slotSin] = boxOperand(o, VKATTN_SIN, box, offsetof(RotaryPush, sinBase));
        d.operands[slotPositions] = boxOperandOr(d.operands[slotX], o, VKATTN_POSITIONS, box, offsetof(RotaryPush, positionsBase));
    }
    d.key = pipelineKey(plan.plain ? Module::rotaryPlain : Module::rotary, plan.lanes, constantsOf(o));
    setGroups(d, groups, plan, box);
}

vkattn_result layOutAppend(OperationPlan &plan, const Caps &, vkattn_diagnostic *) {
    plan.lanes = lanesOfTokens;
    return VKATTN_OK;
}

void dispatchAppend(const OperationPlan &plan, const OperationBox &box, uint32_t, Dispatch &d) {
    const Operation &o = plan.operation;
    AppendPush push{};
    setTokens(push, o, box);
    push.allRows = o.rows;
    push.pageTokens = o.pageTokens;
    push.tablePages = o.tablePages;
    push.pageFirst = box.first[boxColumn];
    push.pages = box.count[boxColumn];
    setPush(d, push);
    d.operands[slotX] = boxOperand(o, VKATTN_X, box, offsetof(AppendPush, xBase));
    d.operands[slotY] = boxOperand(o, VKATTN_Y, box, offsetof(AppendPush, yBase));
    d.operands[slotAppendStarts] = boxOperandOr(d.operands[slotX], o, VKATTN_STARTS, box, offsetof(AppendPush, startsBase));
    d.operands[slotPageTable] = boxOperandOr(d.operands[slotX], o, VKATTN_PAGE_TABLE, box, offsetof(AppendPush, tableBase));
    d.key = pipelineKey(Module::append, plan.lanes, constantsOf(o));
    setGroups(d, groups, plan, box);
}

constexpr uint32_t cuttableTokens = 1u << boxBatch | 1u << boxGroup | 1u << boxRow;

} // namespace

const Routine rotaryRoutine = {
    .kind = VKATTN_ROTARY,
    .name = "rotary",
    .zone = "vkattn rotary",
    .cuttable = cuttableTokens,
    .layOut = layOutRotary,
    .groups = rotaryGroups,
    .workspaceBytes = angleBytes,
    .dispatch = dispatchRotary,
};

const Routine appendRoutine = {
    .kind = VKATTN_APPEND,
    .name = "append",
    .zone = "vkattn append",
    .cuttable = cuttableTokens | 1u << boxColumn,
    .layOut = layOutAppend,
    .groups = groups,
    .workspaceBytes = nullptr,
    .dispatch = dispatchAppend,
};

} // namespace vkattn
