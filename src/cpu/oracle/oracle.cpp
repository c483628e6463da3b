// The oracle: cpu/oracle/row.hpp in double, one row after the other, and the keys that its rule shows to a
// row.
#include "cpu/entry.hpp"
#include "cpu/oracle/row.hpp"

using namespace vkattn;

extern "C" vkattn_result vkattnCpuOracle(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                         vkattn_diagnostic *why) {
    const auto compute = [](const Problem &p, const Operands &operands) {
        HeadKeysValues kv;
        Row<double> row;
        const Sequences sequences(p, operands);
        for (uint32_t b = 0; b < sequences.count(); ++b)
            for (uint32_t h = 0; h < p.heads; ++h) {
                kv.load(p, operands, sequences, b, h / p.groupSize());
                for (uint32_t i = 0; i < sequences[b].queries; ++i) {
                    row.attend(p, operands, sequences, kv, b, h, i);
                    storeRow(p, operands, sequences, row, b, h, i);
                }
            }
    };
    return computeBound(makeProblem, description, memory, count, why, "the scores of one row or a copy of one head", compute);
}

extern "C" vkattn_result vkattnCpuVisible(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                          uint32_t batch, uint32_t head, uint32_t query, unsigned char *visible, uint32_t keys,
                                          vkattn_diagnostic *why) {
    Bound<Problem> bound;
    if (const auto r = bindToCompute(makeProblem, description, memory, count, bound, why)) return r;
    const Problem &p = bound.form;
    const Operands &operands = bound.operands;
    if (batch >= p.batch || head >= p.heads || query >= p.queryTokens)
        return fail(why, invalid, "batch %u, head %u, query %u: the problem has %u, %u and %u of them", batch, head, query, p.batch,
                    p.heads, p.queryTokens);
    if (keys < p.keyTokens) return fail(why, invalid, "visible has %u bytes, expected at least %u: one for each key", keys, p.keyTokens);
    if (!visible && keys) return fail(why, invalid, "visible is NULL with keyCount %u", keys);
    try {
        forSequences(p, operands, [&](uint32_t b, const Sequence &sequence) {
            if (b != batch) return;
            const OraclePair pair(p, operands, sequence, b, head, query);
            for (uint32_t j = 0; j < keys; ++j) visible[j] = query < sequence.queries && pair.visible(j);
        });
    } catch (const std::bad_alloc &) {
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the blocks of one row");
    }
    return VKATTN_OK;
}
