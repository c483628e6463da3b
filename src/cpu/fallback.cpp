// The CPU entry point for hosts without a usable device: cpu/row.hpp in fp32, rows spread over threads.
#include "cpu/row.hpp"
#include "util/diagnostic.hpp"
#include "util/parallel.hpp"

#include <new>

using namespace vkattn;

extern "C" vkattn_result vkattnCpuRun(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                      uint32_t threads, vkattn_diagnostic *why) {
    Problem p;
    Operands operands;
    if (const auto r = makeProblem(description, p, why)) return r;
    if (const auto r = bindOperands(p, memory, count, operands, why)) return r;
    try {
        const Sequences sequences(p, operands);
        parallelFor(threadCount(threads, sequences.blocks()), sequences.blocks(), [&] {
            return [&, kv = HeadKeysValues(), row = Row<float>()](uint64_t n) mutable {
                const RowBlock block = sequences.block(n);
                kv.load(p, operands, sequences, block.b, block.h / p.groupSize());
                for (uint32_t i = block.first; i < block.first + block.count; ++i) {
                    row.attend(p, operands, sequences, kv, block.b, block.h, i);
                    storeRow(p, operands, sequences, row, block.b, block.h, i);
                }
            };
        });
    } catch (const std::bad_alloc &) {
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the scores of one row or a copy of one head");
    }
    return VKATTN_OK;
}
