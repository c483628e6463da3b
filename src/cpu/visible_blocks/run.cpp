// Lists of visible blocks on the threads of a pool: how a call is cut, and what its workspace holds.
#include "cpu/entry.hpp"
#include "cpu/visible_blocks/visible_blocks.hpp"
#include "cpu/visible_blocks/work.hpp"

#include <algorithm>
#include <new>

namespace vkattn {
namespace {

// The facts that follow from the lists, the processor and the number of threads alone.
struct Cut {
    uint64_t units;
    uint32_t threads;
    uint64_t sequenceBytes, blockBytes, pairBytes;

    Cut(const VisibleBlocks &v, const Pool &pool) {
        const Problem &p = v.attention;
        units = uint64_t{p.batch} * p.heads * v.lists.blockRows;
        const double pairs = static_cast<double>(p.batch) * p.heads * p.queryTokens * p.keyTokens;
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(units, 1, pool.threadsFor(8 * pairs)));
        // The batch may be any number without memory behind it where there is nothing to write.
        sequenceBytes = aligned(units ? sizeof(Sequence) * uint64_t{p.batch} : 0);
        blockBytes = aligned(BlockBits::bytes(p));
        pairBytes = aligned(4 * std::min<uint64_t>(lookedAtKeys, p.keyTokens));
    }
    [[nodiscard]] uint64_t bytes() const { return sequenceBytes + blockBytes + threads * pairBytes + workspaceAlignment; }
};

void run(Pool &pool, const Cut &cut, const VisibleBlocks &v, const Operands &operands, WorkspaceParts parts) {
    if (cut.units == 0) return;
    const Problem &p = v.attention;
    auto *const sequences = parts.take<Sequence>(cut.sequenceBytes);
    forEverySequence(p, operands, [&](uint32_t b, const Sequence &s) { new (sequences + b) Sequence(s); });
    BlocksCall call{v, {p, operands, {}}};
    call.sequences = sequences;
    call.forward.blocks = BlockBits::gather(p, operands, parts.take<uint32_t>(cut.blockBytes));
    unsigned char *const scratch = parts.rest();
    const ListRow listRow = listRowKernel();
    forUnits(pool, cut.threads, cut.units, [&](uint64_t n, uint32_t thread) {
        const uint64_t plane = n / v.lists.blockRows;
        const BlocksUnit unit = {static_cast<uint32_t>(plane / p.heads), static_cast<uint32_t>(plane % p.heads),
                                 static_cast<uint32_t>(n % v.lists.blockRows)};
        listRow(call, unit, reinterpret_cast<float *>(scratch + thread * cut.pairBytes));
    });
}

} // namespace

vkattn_result visibleBlocksWorkspace(const vkattn_visible_blocks *description, const Pool &pool, uint64_t &bytes, vkattn_diagnostic *why) {
    return workspaceOf<Cut>(makeVisibleBlocks, description, pool, bytes, why);
}

vkattn_result runVisibleBlocks(Pool &pool, const vkattn_visible_blocks *description, const vkattn_operand_memory *memory, uint32_t count,
                               void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    return runBound<Cut>(pool, makeVisibleBlocks, description, memory, count, workspace, workspaceBytes, why,
                         [&](const Cut &cut, const VisibleBlocks &v, const Operands &operands, WorkspaceParts parts) {
                             run(pool, cut, v, operands, parts);
                         });
}

} // namespace vkattn
