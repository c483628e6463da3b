#include "core/plan/prior.hpp"

#include "core/plan/operands.hpp"

namespace vkattn {

void makePrior(const Plan &plan, const Chunk &c, uint32_t form, const Operand &workspace, Dispatch &d) {
    const Problem &p = plan.problem;
    const bool column = (form & formPriorColumn) != 0, sinks = column && p.has(VKATTN_SINKS);
    const Tensor &out = p.tensor(VKATTN_PRIOR_OUT), &lse = p.tensor(VKATTN_PRIOR_LSE);
    PriorPush push{};
    setPosition(push, plan, c);
    setChunk(push, plan, c);
    push.valueDim = p.valueDim;
    push.packed = std::max(plan.flash.packed, 1u), push.parts = plan.flash.parts;
    push.sumsBase = static_cast<uint32_t>(plan.sumsOffset);
    push.outBatch = stride(out, 0), push.outHead = stride(out, 1), push.outToken = stride(out, 2), push.outDim = stride(out, 3);
    push.lseBatch = stride(lse, 0), push.lseHead = stride(lse, 1), push.lseToken = stride(lse, 2);
    setPush(d, push);
    d.operands[slotWorkspace] = workspace;
    d.operands[slotSecond] = rowsOperand(p, VKATTN_PRIOR_LSE, c, offsetof(PriorPush, lseBase));
    d.operands[slotFirst] = !column ? rowsOperand(p, VKATTN_PRIOR_OUT, c, offsetof(PriorPush, outBase))
                            : sinks ? headsOperand(VKATTN_SINKS, c, offsetof(PriorPush, sinksBase))
                                    : standIn(d.operands[slotSecond]);
    // The column holds what the sums ask for: the log-sum-exp may have been overwritten.
    if (form == formPriorSums) d.operands[slotSecond] = standIn(d.operands[slotFirst]);
    d.operands[slotStagedLengths] = lengthsOperand(plan, c, offsetof(PriorPush, lengthsBase), d.operands[slotFirst]);
    d.operandCount = plainSlots;
    const uint32_t lanes = plan.tuning.pairLanes;
    d.key = pipelineKey(Module::prior, lanes,
                        {.elementTypes = elementType(p, VKATTN_PRIOR_OUT), .form = form | (sinks ? uint32_t{formPriorSinks} : 0)});
    d.groups[0] = c.queries;
    d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
}

} // namespace vkattn
