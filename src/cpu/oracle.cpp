// The oracle: cpu/row.hpp in double, one row after the other.
#include "cpu/row.hpp"
#include "util/diagnostic.hpp"

#include <new>

using namespace vkattn;

extern "C" vkattn_result vkattnCpuOracle(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                         vkattn_diagnostic *why) {
    Problem p;
    Operands operands;
    if (const auto r = makeProblem(description, p, why)) return r;
    if (const auto r = bindOperands(p, memory, count, operands, why)) return r;
    try {
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
    } catch (const std::bad_alloc &) {
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the scores of one row or a copy of one head");
    }
    return VKATTN_OK;
}
