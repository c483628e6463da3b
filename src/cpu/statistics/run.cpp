// Statistics on the threads of a pool: how a call is cut, and what its workspace holds.
#include "cpu/statistics/statistics.hpp"
#include "cpu/statistics/work.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <new>

namespace vkattn {
namespace {

constexpr uint64_t alignment = 64;

uint64_t ceilDivide(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}
uint64_t aligned(uint64_t bytes) {
    return ceilDivide(bytes, alignment) * alignment;
}

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
    uint64_t sequenceBytes, headBytes, turnBytes, scratchBytes;

    Shape(const Statistics &statistics, uint32_t poolThreads) {
        const Problem &p = statistics.attention;
        const uint64_t queries = p.tensor(VKATTN_Q).extent[2], keys = p.tensor(VKATTN_K).extent[2];
        const bool receives = statistics.uses(VKATTN_RECEIVED);
        // The batch may be any number without memory behind it where there is nothing to compute.
        if (queries || (keys && receives)) sequences = p.batch;
        if (receives) {
            const uint64_t blocks = ceilDivide(keys, statisticsBlockKeys);
            heads = sequences * p.heads;
            turns = p.ragged() ? p.heads * (blocks + sequences) : heads * blocks;
        }
        const uint64_t panels =
            p.ragged() ? ceilDivide(queries, own.panelRows) + sequences : sequences * ceilDivide(queries, own.panelRows);
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(std::max(panels * p.heads, heads), 1, poolThreads));
        sequenceBytes = aligned(sizeof(StatisticsSequence) * sequences);
        headBytes = aligned(4 * heads);
        turnBytes = aligned(4 * turns);
        scratchBytes = aligned(4 * StatisticsScratch(statistics, own.panelRows).total);
    }
    [[nodiscard]] uint64_t bytes() const { return sequenceBytes + headBytes + turnBytes + threads * scratchBytes + alignment; }
};

// One call while it runs.
struct Run {
    StatisticsCall call;
    const Shape &shape;
    unsigned char *scratch;
    uint64_t units = 0;
    std::atomic<uint64_t> next{0};

    void work(uint32_t thread) {
        auto *const own = reinterpret_cast<float *>(scratch + thread * shape.scratchBytes);
        for (uint64_t n; (n = next.fetch_add(1, std::memory_order_relaxed)) < units;) shape.own.rows(call, unitOf(n), own);
    }

  private:
    // Heads come in groups, one for each thread, and within a group panel after panel. So threads seldom wait
    // for the panel before, which has begun earlier.
    [[nodiscard]] StatisticsUnit unitOf(uint64_t n) const {
        const StatisticsSequence *const end = call.sequences + call.sequenceCount;
        const auto after = std::upper_bound(call.sequences, end, n,
                                            [](uint64_t value, const StatisticsSequence &each) { return value < each.unitsBefore; });
        const StatisticsSequence &sequence = after[-1];
        const uint64_t group = shape.threads, perGroup = group * sequence.panels;
        const uint64_t within = n - sequence.unitsBefore, first = within / perGroup * group;
        const uint64_t count = std::min<uint64_t>(group, call.statistics.attention.heads - first), rest = within % perGroup;
        return {static_cast<uint32_t>(&sequence - call.sequences), static_cast<uint32_t>(first + rest % count),
                static_cast<uint32_t>(rest / count)};
    }
};

void run(Pool &pool, const Shape &shape, const Statistics &statistics, const Operands &operands, unsigned char *memory) {
    const Problem &p = statistics.attention;
    memory += (alignment - reinterpret_cast<uintptr_t>(memory) % alignment) % alignment;
    auto *const sequences = reinterpret_cast<StatisticsSequence *>(memory);
    auto *const heads = reinterpret_cast<uint32_t *>(memory + shape.sequenceBytes);
    auto *const turns = reinterpret_cast<std::atomic<uint32_t> *>(memory + shape.sequenceBytes + shape.headBytes);
    Run run{{statistics, {p, operands, {}}}, shape, memory + shape.sequenceBytes + shape.headBytes + shape.turnBytes};
    run.call.sequences = sequences;
    run.call.heads = shape.heads ? heads : nullptr;
    run.call.turns = turns;
    std::fill(heads, heads + shape.heads, 0u);
    for (uint64_t n = 0; n < shape.turns; ++n) new (turns + n) std::atomic<uint32_t>(0);
    uint64_t turnsBefore = 0;
    if (shape.sequences)
        forEverySequence(p, operands, [&](uint32_t b, const Sequence &s) {
            StatisticsSequence &sequence = *new (sequences + b) StatisticsSequence;
            sequence.s = s;
            sequence.panels = static_cast<uint32_t>(ceilDivide(s.queries, shape.own.panelRows));
            // One panel without rows writes the zeros of keys that no row sees.
            if (shape.heads) sequence.panels = std::max(sequence.panels, 1u);
            // Keys past a key length are keys that no row sees.
            sequence.storedKeys = p.ragged() ? s.keys : p.keyTokens;
            sequence.unitsBefore = run.units;
            sequence.turnsBefore = turnsBefore;
            if (shape.heads) turnsBefore += uint64_t{p.heads} * sequence.blocks();
            run.units += uint64_t{sequence.panels} * p.heads;
            run.call.sequenceCount = b + 1;
        });
    if (run.units)
        pool.run(
            shape.threads, [](void *context, uint32_t thread) { static_cast<Run *>(context)->work(thread); }, &run);
}

} // namespace

vkattn_result checkStatistics(const vkattn_attention_statistics *description, const vkattn_operand_memory *memory, uint32_t count,
                              vkattn_diagnostic *why) {
    Statistics statistics;
    Operands ignored;
    if (const auto r = makeStatistics(description, statistics, why)) return r;
    return bindOperands(statistics, memory, count, ignored, why);
}

vkattn_result statisticsWorkspace(const vkattn_attention_statistics *description, const Pool &pool, uint64_t &bytes,
                                  vkattn_diagnostic *why) {
    Statistics statistics;
    if (const auto r = makeStatistics(description, statistics, why)) return r;
    bytes = Shape(statistics, pool.threadsFor(workOf(statistics))).bytes();
    return VKATTN_OK;
}

vkattn_result runStatistics(Pool &pool, const vkattn_attention_statistics *description, const vkattn_operand_memory *memory, uint32_t count,
                            void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    Statistics statistics;
    Operands operands;
    if (const auto r = makeStatistics(description, statistics, why)) return r;
    if (const auto r = bindOperands(statistics, memory, count, operands, why)) return r;
    const Shape shape(statistics, pool.threadsFor(workOf(statistics)));
    if (!workspace || workspaceBytes < shape.bytes())
        return fail(why, invalid, "workspace has %llu bytes, expected at least %llu: vkattnCpuOperationWorkspace says how many",
                    static_cast<unsigned long long>(workspace ? workspaceBytes : 0), static_cast<unsigned long long>(shape.bytes()));
    run(pool, shape, statistics, operands, static_cast<unsigned char *>(workspace));
    return VKATTN_OK;
}

} // namespace vkattn
