// Linear attention on the threads of a pool: how a call is cut, and what its workspace holds.
#include "cpu/entry.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear/work.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// The facts that follow from the description, the processor and the number of threads alone.
struct Cut {
    const LinearKernels &own = linearKernels();
    bool chunked;
    uint32_t threads, tiles, columns;
    uint64_t units, normalizerBytes, scratchBytes;

    Cut(const LinearAttention &a, const Pool &pool) {
        chunked = a.form == VKATTN_LINEAR_FORM_CHUNKED || (a.form == VKATTN_LINEAR_FORM_AUTO && a.keyTokens >= fewestChunkedKeys);
        const uint64_t whole = uint64_t{a.batch} * a.stateHeads * ceilDivide(a.valueDim, manyLinearColumns);
        // Token by token, a state is gone over for each: one of few columns stays in a first-level cache.
        columns = chunked && whole >= pool.threadsFor(a.flops() / 2) ? manyLinearColumns : fewLinearColumns;
        tiles = static_cast<uint32_t>(ceilDivide(a.valueDim, columns));
        // The batch may be any number without memory behind it where there is nothing to compute.
        const bool empty = !a.uses(VKATTN_STATE_OUT) && a.snapshotCount() == 0 && a.queryTokens == 0;
        units = empty ? 0 : uint64_t{a.batch} * a.stateHeads * tiles;
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(units, 1, pool.threadsFor(a.flops() / 2)));
        const bool carries = a.hasFeatures() && a.uses(VKATTN_STATE_IN);
        normalizerBytes = carries ? aligned(8 * uint64_t{a.batch} * a.stateHeads * a.stateRows) : 0;
        scratchBytes = aligned(4 * LinearScratch(a, columns).total);
    }
    [[nodiscard]] uint64_t bytes() const { return units ? threads * scratchBytes + normalizerBytes + workspaceAlignment : 0; }
};

void copyNormalizers(const LinearAttention &a, const Operands &operands, float *to) {
    const Tensor &state = a.tensor(VKATTN_STATE_IN);
    for (uint32_t b = 0; b < a.batch; ++b)
        for (uint32_t s = 0; s < a.stateHeads; ++s)
            for (uint32_t n = 0; n < 2; ++n)
                for (uint32_t r = 0; r < a.stateRows; ++r)
                    *to++ = n == 0 || a.hasMaximum()
                                ? loadElement(operands.data[VKATTN_STATE_IN], state.dtype, state.index(b, s, r, a.valueDim + n))
                                : 0;
}

void run(Pool &pool, const Cut &cut, const LinearAttention &a, const Operands &operands, WorkspaceParts parts) {
    if (cut.units == 0) return;
    auto *const normalizers = parts.take<float>(cut.normalizerBytes);
    if (cut.normalizerBytes) copyNormalizers(a, operands, normalizers);
    const LinearCall call{a, operands, cut.chunked, cut.columns, cut.normalizerBytes ? normalizers : nullptr};
    unsigned char *const scratch = parts.rest();
    forUnits(pool, cut.threads, cut.units, [&](uint64_t n, uint32_t thread) {
        const auto tile = static_cast<uint32_t>(n % cut.tiles), first = tile * cut.columns;
        const uint64_t head = n / cut.tiles;
        cut.own.scan(call,
                     {static_cast<uint32_t>(head / a.stateHeads), static_cast<uint32_t>(head % a.stateHeads), first,
                      std::min(cut.columns, a.valueDim - first)},
                     reinterpret_cast<float *>(scratch + thread * cut.scratchBytes));
    });
}

} // namespace

vkattn_result checkLinear(const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                          vkattn_diagnostic *why) {
    return checkOperands(makeLinear, description, memory, count, why);
}

vkattn_result linearWorkspace(const vkattn_linear_attention *description, const Pool &pool, uint64_t &bytes, vkattn_diagnostic *why) {
    return workspaceOf<Cut>(makeLinear, description, pool, bytes, why);
}

vkattn_result runLinear(Pool &pool, const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                        void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    return runBound<Cut>(pool, makeLinear, description, memory, count, workspace, workspaceBytes, why,
                         [&](const Cut &cut, const LinearAttention &a, const Operands &operands, WorkspaceParts parts) {
                             run(pool, cut, a, operands, parts);
                         });
}

} // namespace vkattn
