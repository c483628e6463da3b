// The backward pass on the threads of a pool: how a call is cut, and what its workspace holds.
#include "cpu/entry.hpp"
#include "cpu/gradient/gradient.hpp"
#include "cpu/gradient/work.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace vkattn {
namespace {

double workOf(const Gradient &g) {
    const Problem &p = g.forward;
    const double pairs = static_cast<double>(p.tensor(VKATTN_Q).extent[2]) * p.keyTokens * p.heads * (p.ragged() ? 1 : p.batch);
    return 2.5 * pairs * (p.headDim + p.valueDim);
}

// The facts that follow from the gradient, the processor and the number of threads alone.
struct Shape {
    const GradientKernels &own = gradientKernels();
    GradientTiling tiling;
    uint32_t threads;
    uint64_t sequences = 0, heads = 0; // that a call visits
    uint64_t turns = 0, sums = 0, slots = 0, slotFloats = 0, biasUnits = 0;
    uint64_t sequenceBytes, turnBytes, finishedBytes, sumBytes, rowBytes, slotBytes, blockBytes, scratchBytes;

    Shape(const Gradient &g, const Pool &pool) {
        const Problem &p = g.forward;
        const uint32_t dims = p.headDim + p.valueDim, panel = own.panelRows;
        // The rows of a chunk five times over, a tile of K and V and its sums stay in a second-level
        // cache together.
        tiling.tileKeys = dims <= 256 ? 96 : dims <= 512 ? 48 : 24;
        const uint64_t largest = dims <= 256 ? 128 : dims <= 512 ? 64 : 32;
        const uint64_t queries = p.tensor(VKATTN_Q).extent[2], keys = p.tensor(VKATTN_K).extent[2];
        const uint64_t rows = uint64_t{p.queryTokens} * p.groupSize();
        tiling.chunkRows = static_cast<uint32_t>(ceilDivide(std::clamp<uint64_t>(rows, 1, largest), panel) * panel);

        const bool wantsKeys = g.uses(VKATTN_D_K) || g.uses(VKATTN_D_V);
        // The batch may be any number without memory behind it where there is nothing to compute.
        if (queries || (keys && wantsKeys)) sequences = p.batch;
        heads = sequences * p.kvHeads;
        uint64_t chunks = 0, units = 0;
        if (p.ragged()) {
            turns = p.kvHeads * (ceilDivide(keys, tiling.tileKeys) + sequences);
            chunks = p.kvHeads * (ceilDivide(queries * p.groupSize(), tiling.chunkRows) + sequences);
        } else {
            turns = heads * ceilDivide(keys, tiling.tileKeys);
            chunks = heads * std::max<uint64_t>(ceilDivide(rows, tiling.chunkRows), 1);
        }
        units = chunks;
        sums = chunks * p.groupSize();
        if (g.uses(VKATTN_D_BIAS))
            units = std::max(units, biasUnits = BiasBlocks(g.tensor(VKATTN_D_BIAS), tiling).units(g.tensor(VKATTN_D_BIAS)));
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(units, 1, pool.threadsFor(workOf(g))));
        // Two heads a thread: while the last chunks of one group of heads are computed, the next group
        // begins.
        slots = wantsKeys ? std::min<uint64_t>(heads, 2ull * threads) : 0;
        slotFloats = p.keyTokens * (wholeLines(p.headDim) + wholeLines(p.valueDim));
        sequenceBytes = aligned(sizeof(GradientSequence) * sequences);
        turnBytes = aligned(4 * turns);
        finishedBytes = aligned(4 * heads);
        sumBytes = aligned(sizeof(ChunkSums) * sums);
        // Where dWeights is given, D_i takes a walk over the keys, which the second pass need not repeat.
        rowBytes =
            biasUnits && g.tensor(VKATTN_D_WEIGHTS).present() ? aligned(4 * (p.ragged() ? 1 : uint64_t{p.batch}) * p.heads * queries) : 0;
        slotBytes = aligned(4 * slots * slotFloats);
        blockBytes = aligned(BlockBits::bytes(p));
        scratchBytes = aligned(4 * GradientScratch(g, tiling, panel).total);
    }
    [[nodiscard]] uint64_t bytes() const {
        return sequenceBytes + turnBytes + finishedBytes + sumBytes + rowBytes + slotBytes + blockBytes + threads * scratchBytes +
               workspaceAlignment;
    }
};

// One call while it runs.
struct Run {
    GradientCall call;
    const Shape &shape;
    unsigned char *scratch;
    uint64_t heads, mostChunks; // of the first pass

    [[nodiscard]] uint64_t units() const { return heads * mostChunks; }
    [[nodiscard]] float *scratchOf(uint32_t thread) const { return reinterpret_cast<float *>(scratch + thread * shape.scratchBytes); }

    // Heads come in groups, one for each thread, and within a group chunk after chunk. So threads seldom
    // wait, and what a chunk waits for has begun earlier.
    void computeRows(uint64_t unit, uint32_t thread) const {
        const uint64_t group = shape.threads, perGroup = group * mostChunks;
        const uint64_t first = unit / perGroup * group, count = std::min(group, heads - first), within = unit % perGroup;
        const uint64_t head = first + within % count, chunk = within / count;
        const auto b = static_cast<uint32_t>(head / call.g.forward.kvHeads);
        if (chunk < call.sequences[b].chunks)
            shape.own.rows(call, b, static_cast<uint32_t>(head % call.g.forward.kvHeads), static_cast<uint32_t>(chunk), scratchOf(thread));
    }

    // Adds up what the chunks have added, in their order.
    void storeSums() const {
        const Gradient &g = call.g;
        const Problem &p = g.forward;
        double scale = 0, softcap = 0;
        for (uint32_t h = 0; call.wantsSums() && h < p.heads; ++h) {
            ChunkSums sum{};
            for (uint32_t b = 0; b < call.sequenceCount; ++b) {
                const GradientSequence &sequence = call.sequences[b];
                const ChunkSums *from = call.sums + sequence.sumsBefore + uint64_t{h / p.groupSize()} * sequence.chunks * p.groupSize();
                for (uint32_t chunk = 0; chunk < sequence.chunks; ++chunk, from += p.groupSize()) {
                    const ChunkSums &own = from[h % p.groupSize()];
                    sum.slopes += own.slopes;
                    sum.sinks += own.sinks;
                    sum.scale += own.scale;
                    sum.softcap += own.softcap;
                }
            }
            store(VKATTN_D_SLOPES, h, sum.slopes);
            store(VKATTN_D_SINKS, h, sum.sinks);
            scale += sum.scale;
            softcap += sum.softcap;
        }
        store(VKATTN_D_SCALE, 0, scale);
        store(VKATTN_D_SOFTCAP, 0, softcap);
    }
    void store(vkattn_role role, uint64_t n, double sum) const {
        if (!call.wants(role)) return;
        const auto value = static_cast<float>(sum / static_cast<double>(call.g.lossScale));
        storeElement(call.operands().data[role], VKATTN_F32, n, value);
        if (!std::isfinite(value)) call.nonfinite->store(1, std::memory_order_relaxed);
    }
};

void run(Pool &pool, const Shape &shape, const Gradient &g, const Operands &operands, WorkspaceParts parts) {
    const Problem &p = g.forward;
    std::atomic<uint32_t> nonfinite{0};
    auto *const sequences = parts.take<GradientSequence>(shape.sequenceBytes);
    auto *const turns = parts.take<std::atomic<uint32_t>>(shape.turnBytes);
    auto *const finished = parts.take<std::atomic<uint32_t>>(shape.finishedBytes);
    GradientCall call{g, {p, operands, {}}, shape.tiling};
    call.sequences = sequences;
    call.turns = turns;
    call.finished = finished;
    call.sums = parts.take<ChunkSums>(shape.sumBytes);
    call.forward.blocks = BlockBits::gather(p, operands, parts.take<uint32_t>(shape.blockBytes));
    call.rowD = shape.rowBytes ? parts.take<float>(shape.rowBytes) : nullptr;
    call.accumulators = parts.take<float>(shape.slotBytes);
    call.slots = shape.slots;
    call.slotFloats = shape.slotFloats;
    call.nonfinite = &nonfinite;
    for (uint64_t n = 0; n < shape.turns; ++n) new (turns + n) std::atomic<uint32_t>(0);
    for (uint64_t n = 0; n < shape.heads; ++n) new (finished + n) std::atomic<uint32_t>(0);

    uint64_t turnsBefore = 0, sumsBefore = 0, rowsBefore = 0, mostChunks = 0;
    if (shape.sequences)
        forEverySequence(p, operands, [&](uint32_t b, const Sequence &s) {
            GradientSequence &sequence = *new (sequences + b) GradientSequence;
            sequence.s = s;
            // One chunk without rows writes the zeros of keys that no row sees.
            sequence.chunks =
                static_cast<uint32_t>(std::max<uint64_t>(ceilDivide(uint64_t{s.queries} * p.groupSize(), shape.tiling.chunkRows), 1));
            sequence.tiles = static_cast<uint32_t>(ceilDivide(s.keys, shape.tiling.tileKeys));
            sequence.turnsBefore = turnsBefore;
            sequence.sumsBefore = sumsBefore;
            sequence.rowsBefore = rowsBefore;
            turnsBefore += uint64_t{p.kvHeads} * sequence.tiles;
            sumsBefore += uint64_t{p.heads} * sequence.chunks;
            rowsBefore += uint64_t{p.heads} * s.queries;
            mostChunks = std::max<uint64_t>(mostChunks, sequence.chunks);
            call.sequenceCount = b + 1;
        });
    const Run run{call, shape, parts.rest(), uint64_t{call.sequenceCount} * p.kvHeads, mostChunks};
    forUnits(pool, shape.threads, run.units(), [&](uint64_t unit, uint32_t thread) { run.computeRows(unit, thread); });
    forUnits(pool, shape.threads, shape.biasUnits,
             [&](uint64_t unit, uint32_t thread) { shape.own.bias(call, unit, run.scratchOf(thread)); });
    run.storeSums();
    if (g.has(VKATTN_NONFINITE) && nonfinite.load()) {
        const uint32_t found = 1;
        std::memcpy(operands.data[VKATTN_NONFINITE], &found, 4);
    }
}

} // namespace

vkattn_result gradientWorkspace(const vkattn_attention_gradient *description, const Pool &pool, uint64_t &bytes, vkattn_diagnostic *why) {
    return workspaceOf<Shape>(makeGradient, description, pool, bytes, why);
}

vkattn_result runGradient(Pool &pool, const vkattn_attention_gradient *description, const vkattn_operand_memory *memory, uint32_t count,
                          void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    return runBound<Shape>(pool, makeGradient, description, memory, count, workspace, workspaceBytes, why,
                           [&](const Shape &shape, const Gradient &g, const Operands &operands, WorkspaceParts parts) {
                               run(pool, shape, g, operands, parts);
                           });
}

} // namespace vkattn
