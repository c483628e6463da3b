#include "core/plan/operands.hpp"

#include <algorithm>

namespace vkattn {

void makeSequences(const Plan &plan, Dispatch &d) {
    const Problem &p = plan.problem;
    SequencesPush push{};
    push.sequences = p.batch;
    push.totalQueries = p.tensor(VKATTN_Q).extent[2];
    push.totalKeys = p.tensor(VKATTN_K).extent[2];
    push.maxQueries = p.queryTokens;
    push.maxKeys = p.keyTokens;
    setPush(d, push);
    const uint64_t count = p.batch + 1ull;
    d.operands[0] = {VKATTN_WORKSPACE, 0, 4ull * sequenceWords * p.batch, 0, noPushWord, 4, true};
    d.operands[1] = arrayOperand(VKATTN_CU_SEQ_Q, 0, count, 0, offsetof(SequencesPush, cuQBase));
    d.operands[2] = arrayOperand(VKATTN_CU_SEQ_K, 0, count, 0, offsetof(SequencesPush, cuKBase));
    d.operands[3] = standIn(d.operands[1]);
    d.key = {Module::sequences, {plan.tuning.sequenceLanes, plan.tuning.sequenceLanes}};
    d.groups[0] = d.groups[1] = d.groups[2] = 1;
}

Chunk rowsOfChunk(const Plan &plan, uint32_t rowChunk) {
    const Problem &p = plan.problem;
    Chunk c{};
    c.queryFirst = rowChunk % plan.queryChunks * plan.chunkQueries;
    c.headFirst = rowChunk / plan.queryChunks % plan.headChunks * plan.chunkHeads;
    c.batchFirst = rowChunk / plan.queryChunks / plan.headChunks * plan.chunkBatches;
    c.queries = std::min(plan.chunkQueries, p.queryTokens - c.queryFirst);
    c.heads = std::min(plan.chunkHeads, p.heads - c.headFirst);
    c.batches = std::min(plan.chunkBatches, p.batch - c.batchFirst);
    return c;
}

} // namespace vkattn
