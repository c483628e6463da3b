// What a row's statistics, its output and the gradients of both say, for every kernel of the backward
// pass: shaders/gradient/row_facts.comp.
#include "core/gradient/gradient_plan.hpp"

namespace vkattn {

Operand gradientRows(const GradientPlan &plan, vkattn_role role, const Chunk &c, size_t basePushByte) {
    return tokensOperand(plan.gradient.tensor(role), role, plan.gradient.writes(role), plan.problem().ragged(), c, rowTokens(c),
                         basePushByte);
}

Operand gradientKeys(const GradientPlan &plan, vkattn_role role, const Chunk &c, size_t basePushByte) {
    return tokensOperand(plan.gradient.tensor(role), role, plan.gradient.writes(role), plan.problem().ragged(), c,
                         keyTokens(plan.problem(), c), basePushByte);
}

void makeRowFacts(const GradientPlan &plan, const Chunk &c, uint32_t number, Dispatch &d) {
    const Gradient &g = plan.gradient;
    const bool dots = number == 0, dLse = g.uses(VKATTN_D_LSE);
    const vkattn_role first = dots ? VKATTN_D_OUT : VKATTN_LSE, second = dots ? VKATTN_OUT : VKATTN_D_LSE;
    const Tensor &a = g.tensor(first), &b = g.tensor(second);
    RowFactsPush push{};
    setPosition(push, plan.forward, c);
    setChunk(push, plan.forward, c);
    push.dims = a.extent[3];
    push.firstBatch = stride(a, 0), push.firstHead = stride(a, 1), push.firstToken = stride(a, 2), push.firstDim = stride(a, 3);
    push.secondBatch = stride(b, 0), push.secondHead = stride(b, 1), push.secondToken = stride(b, 2), push.secondDim = stride(b, 3);
    setPush(d, push);
    const uint64_t bytes = 4ull * rowFactWords * c.batches * c.heads * c.queries;
    d.operands[slotWorkspace] = {
        VKATTN_WORKSPACE, plan.at.facts, plan.at.facts + bytes, plan.at.facts, offsetof(RowFactsPush, factsBase) / 4, 4, true};
    d.operands[slotFirst] = gradientRows(plan, first, c, offsetof(RowFactsPush, firstBase));
    d.operands[slotSecond] =
        dots || dLse ? gradientRows(plan, second, c, offsetof(RowFactsPush, secondBase)) : standIn(d.operands[slotFirst]);
    d.operands[slotStagedLengths] = lengthsOperand(plan.forward, c, offsetof(RowFactsPush, lengthsBase), d.operands[slotFirst]);
    const uint32_t lanes = plan.forward.tuning.pairLanes;
    ConceptConstants constants{};
    constants.elementTypes = static_cast<uint32_t>(a.dtype) | static_cast<uint32_t>(b.dtype) << typesOut;
    constants.form = (dots ? formDots : 0u) | (dLse ? formDLse : 0u);
    d.key = pipelineKey(Module::rowFacts, lanes, constants);
    d.operandCount = plainSlots;
    d.groups[0] = divideUp(c.queries, lanes);
    d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
}

} // namespace vkattn
