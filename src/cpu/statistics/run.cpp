// Statistics on the threads of a pool: how a call is cut, and what its workspace holds.
#include "cpu/entry.hpp"
#include "cpu/statistics/statistics.hpp"
#include "cpu/statistics/work.hpp"

#include <algorithm>
#include <new>

namespace vkattn {
namespace {

double workOf(const Statistics &statistics) {
    const Problem &p = statistics.attention;
    const double pairs = static_cast<double>(p.tensor(VKATTN_Q).extent[2]) * p.keyTokens * p.heads * (p.ragged() ? 1 : p.batch);
    return pairs * (p.headDim + 16.0);
}

// The facts that follow from the statistics, the processor and the number of threads alone.
struct Shape {
    const StatisticsKernels &own = statisticsKernels();
    uint32_t threads;
    uint64_t sequences = 0;        // that a call visits
    uint64_t heads = 0, turns = 0; // only where keys receive
    uint64_t sequenceBytes, headBytes, turnBytes, blockBytes, scratchBytes;

    Shape(const Statistics &statistics, const Pool &pool) {
        const Problem &p = statistics.attention;
        const uint64_t queries = p.tensor(VKATTN_Q).extent[2], keys = p.tensor(VKATTN_K).extent[2];
        const bool receives = statistics.uses(VKATTN_RECEIVED);
        // The batch may be any number without memory behind it where there is nothing to compute.
        if (queries || (keys && receives)) sequences = p.batch;
        if (receives) {
            const uint64_t blocks = ceilDivide(keys, blockKeysOf(p));
            heads = sequences * p.heads;
            turns = p.ragged() ? p.heads * (blocks + sequences) : heads * blocks;
        }
        const uint64_t panels =
            p.ragged() ? ceilDivide(queries, own.panelRows) + sequences : sequences * ceilDivide(queries, own.panelRows);
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(std::max(panels * p.heads, heads), 1, pool.threadsFor(workOf(statistics))));
        sequenceBytes = aligned(sizeof(StatisticsSequence) * sequences);
        headBytes = aligned(4 * heads);
        turnBytes = aligned(4 * turns);
        blockBytes = aligned(BlockBits::bytes(p));
        scratchBytes = aligned(4 * StatisticsScratch(statistics, own.panelRows).total);
    }
    [[nodiscard]] uint64_t bytes() const {
        return sequenceBytes + headBytes + turnBytes + blockBytes + threads * scratchBytes + workspaceAlignment;
    }
};

// Heads come in groups, one for each thread, and within a group panel after panel. So threads seldom wait
// for the panel before, which has begun earlier.
StatisticsUnit unitOf(const StatisticsCall &call, uint32_t threads, uint64_t n) {
    const StatisticsSequence *const end = call.sequences + call.sequenceCount;
    const auto after =
        std::upper_bound(call.sequences, end, n, [](uint64_t value, const StatisticsSequence &each) { return value < each.unitsBefore; });
    const StatisticsSequence &sequence = after[-1];
    const uint64_t group = threads, perGroup = group * sequence.panels;
    const uint64_t within = n - sequence.unitsBefore, first = within / perGroup * group;
    const uint64_t count = std::min<uint64_t>(group, call.statistics.attention.heads - first), rest = within % perGroup;
    return {static_cast<uint32_t>(&sequence - call.sequences), static_cast<uint32_t>(first + rest % count),
            static_cast<uint32_t>(rest / count)};
}

void run(Pool &pool, const Shape &shape, const Statistics &statistics, const Operands &operands, WorkspaceParts parts) {
    const Problem &p = statistics.attention;
    auto *const sequences = parts.take<StatisticsSequence>(shape.sequenceBytes);
    auto *const heads = parts.take<uint32_t>(shape.headBytes);
    auto *const turns = parts.take<std::atomic<uint32_t>>(shape.turnBytes);
    const BlockBits blocks = BlockBits::gather(p, operands, parts.take<uint32_t>(shape.blockBytes));
    StatisticsCall call{statistics, {p, operands, {}}};
    call.forward.blocks = blocks;
    call.sequences = sequences;
    call.heads = shape.heads ? heads : nullptr;
    call.turns = turns;
    std::fill(heads, heads + shape.heads, 0u);
    for (uint64_t n = 0; n < shape.turns; ++n) new (turns + n) std::atomic<uint32_t>(0);
    uint64_t units = 0, turnsBefore = 0;
    if (shape.sequences)
        forEverySequence(p, operands, [&](uint32_t b, const Sequence &s) {
            StatisticsSequence &sequence = *new (sequences + b) StatisticsSequence;
            sequence.s = s;
            sequence.panels = static_cast<uint32_t>(ceilDivide(s.queries, shape.own.panelRows));
            // One panel without rows writes the zeros of keys that no row sees.
            if (shape.heads) sequence.panels = std::max(sequence.panels, 1u);
            // Keys past a key length are keys that no row sees.
            sequence.storedKeys = p.ragged() ? s.keys : p.keyTokens;
            sequence.unitsBefore = units;
            sequence.turnsBefore = turnsBefore;
            units += uint64_t{sequence.panels} * p.heads;
            if (shape.heads) turnsBefore += uint64_t{p.heads} * sequence.blocks(blockKeysOf(p));
            call.sequenceCount = b + 1;
        });
    unsigned char *const scratch = parts.rest();
    forUnits(pool, shape.threads, units, [&](uint64_t n, uint32_t thread) {
        shape.own.rows(call, unitOf(call, shape.threads, n), reinterpret_cast<float *>(scratch + thread * shape.scratchBytes));
    });
}

} // namespace

vkattn_result statisticsWorkspace(const vkattn_attention_statistics *description, const Pool &pool, uint64_t &bytes,
                                  vkattn_diagnostic *why) {
    return workspaceOf<Shape>(makeStatistics, description, pool, bytes, why);
}

vkattn_result runStatistics(Pool &pool, const vkattn_attention_statistics *description, const vkattn_operand_memory *memory, uint32_t count,
                            void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    return runBound<Shape>(pool, makeStatistics, description, memory, count, workspace, workspaceBytes, why,
                           [&](const Shape &shape, const Statistics &statistics, const Operands &operands, WorkspaceParts parts) {
                               run(pool, shape, statistics, operands, parts);
                           });
}

} // namespace vkattn
