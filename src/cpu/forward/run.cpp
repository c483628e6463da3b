// The CPU entry points for hosts without a usable device. They cut a problem into units, and the
// threads of a pool compute the units.
#include "cpu/attention.hpp"
#include "cpu/entry.hpp"
#include "util/parallel.hpp"

#include <memory>
#include <new>

using namespace vkattn;

namespace {

constexpr uint32_t mostThreads = 1024;
// The most rows that share a key/value head and are split. More rows are enough units by
// themselves.
constexpr uint32_t mostSplitRows = 64;

// The facts that follow from the problem, the processor and the number of threads alone.
struct Shape {
    const Kernels &own = kernels();
    Tiling tiling;
    // Scratch memory is that of each thread.
    uint64_t sequenceBytes, counterBytes, partialBytes, blockBytes, scratchBytes;
    uint32_t threads;

    Shape(const Problem &p, uint32_t mostThreadsOfPool) {
        const uint32_t panel = own.shape.panelRows, dims = p.headDim + p.valueDim;
        // A tile of K and V, a unit's queries and outputs stay in a second-level cache together.
        tiling.tileKeys = dims <= 256 ? 96 : dims <= 512 ? 48 : 24;
        tiling.splitKeys = 1056 / tiling.tileKeys * tiling.tileKeys;
        const uint64_t queries = p.tensor(VKATTN_Q).extent[2], keys = p.tensor(VKATTN_K).extent[2];
        const uint64_t heads = uint64_t{p.kvHeads} * (p.ragged() ? 1 : p.batch);
        const uint64_t rows = queries * p.groupSize();
        // Four units a thread let the last units end together.
        const uint64_t wanted = ceilDivide(rows * heads, 4ull * mostThreadsOfPool);
        const uint64_t largest = dims <= 256 ? 128 : dims <= 512 ? 64 : 32;
        tiling.unitRows = static_cast<uint32_t>(ceilDivide(std::clamp<uint64_t>(std::min(wanted, rows), 1, largest), panel) * panel);
        // Rows of one row of blocks see the same keys.
        if (const uint64_t together = uint64_t{p.rules.blocks.queries} * p.groupSize();
            p.rules.blocks.kind != VKATTN_BLOCKS_NONE && together < tiling.unitRows && together % panel == 0)
            tiling.unitRows = static_cast<uint32_t>(together);
        if (splittable(p))
            tiling.unitRows =
                std::max(tiling.unitRows, static_cast<uint32_t>(ceilDivide(std::min<uint64_t>(rows, mostSplitRows), panel) * panel));

        sequenceBytes = counterBytes = partialBytes = 0;
        uint64_t units = 0;
        if (queries) {
            const uint64_t perSequence = splits(p.keyTokens);
            sequenceBytes = aligned(sizeof(SequencePlan) * p.batch);
            // In a ragged batch only sequences longer than a split are cut, and these have at most
            // twice as many splits as all keys make.
            uint64_t allSplits = p.batch * perSequence;
            if (!splittable(p) || perSequence == 1 || (!p.ragged() && rows > mostSplitRows)) allSplits = 0;
            if (p.ragged()) allSplits = std::min(allSplits, 2 * ceilDivide(keys, tiling.splitKeys));
            const uint64_t splitRows = std::min<uint64_t>(uint64_t{p.queryTokens} * p.groupSize(), mostSplitRows);
            counterBytes = allSplits ? aligned(sizeof(std::atomic<uint32_t>) * p.batch * p.kvHeads) : 0;
            partialBytes = aligned(4 * allSplits * p.kvHeads * splitRows * (p.valueDim + uint64_t{3}));
            units =
                heads * std::max(ceilDivide(rows, tiling.unitRows), ceilDivide(allSplits, std::max<uint64_t>(p.ragged() ? 1 : p.batch, 1)));
            if (p.ragged()) units = std::max(units, uint64_t{p.batch} * p.kvHeads);
        }
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(units, 1, mostThreadsOfPool));
        blockBytes = aligned(BlockBits::bytes(p));
        scratchBytes = aligned(4 * scratchLayout(p, tiling, own.shape).total);
    }
    [[nodiscard]] static bool splittable(const Problem &p) { return !p.writesPairs(); }
    [[nodiscard]] static uint64_t patchesAcross(const Problem &p, const SequencePlan &plan) {
        return ceilDivide(p.rules.grid.extent[2], plan.patchColumns);
    }
    [[nodiscard]] static uint64_t patchesOfPlane(const Problem &p, const SequencePlan &plan) {
        return patchesAcross(p, plan) * ceilDivide(p.rules.grid.extent[1], plan.patchRows);
    }
    // The block-th patch of a key/value head: those of its query heads lie next to each other.
    [[nodiscard]] static GridPatch patchOf(const Problem &p, const SequencePlan &plan, uint64_t block) {
        const uint64_t n = block / p.groupSize(), inPlane = n % patchesOfPlane(p, plan);
        GridPatch patch;
        patch.headOfGroup = static_cast<uint32_t>(block % p.groupSize());
        patch.plane = static_cast<uint32_t>(n / patchesOfPlane(p, plan));
        patch.row = static_cast<uint32_t>(inPlane / patchesAcross(p, plan)) * plan.patchRows;
        patch.column = static_cast<uint32_t>(inPlane % patchesAcross(p, plan)) * plan.patchColumns;
        patch.rows = std::min(plan.patchRows, p.rules.grid.extent[1] - patch.row);
        patch.columns = std::min(plan.patchColumns, p.rules.grid.extent[2] - patch.column);
        return patch;
    }
    [[nodiscard]] uint64_t splits(uint64_t keys) const { return std::max<uint64_t>(ceilDivide(keys, tiling.splitKeys), 1); }
    [[nodiscard]] uint64_t bytes() const {
        return sequenceBytes + counterBytes + partialBytes + blockBytes + threads * scratchBytes + workspaceAlignment;
    }

    // Whether a sequence's queries are the places of a grid, of which rules show boxes and nothing else. Not
    // where bits must be those of tiles that skip nothing.
    [[nodiscard]] static bool isGrid(const Problem &p, const Sequence &s) {
        const vkattn_grid &grid = p.rules.grid;
        if (grid.rule == VKATTN_GRID_NONE || p.deterministic || p.rules.local() || p.rules.blocks.kind != VKATTN_BLOCKS_NONE) return false;
        return s.shift == 0 && s.queries > mostSplitRows && s.queries == s.keys &&
               uint64_t{grid.extent[0]} * grid.extent[1] * grid.extent[2] == s.keys;
    }
    void cut(const Problem &p, SequencePlan &plan) const {
        const uint64_t rows = uint64_t{plan.s.queries} * p.groupSize();
        if (isGrid(p, plan.s)) {
            const uint32_t *const extent = p.rules.grid.extent, panel = std::clamp(16u, own.shape.lanes, own.shape.panelRows);
            uint32_t columns = 1; // about as wide as high
            while (columns < panel && (columns * columns < panel || panel / columns > extent[1])) columns *= 2;
            while (columns > 1 && columns > extent[2]) columns /= 2;
            plan.patchColumns = columns;
            plan.patchRows = std::max(panel / columns, 1u);
            plan.splits = 1;
            plan.rowsPerBlock = plan.patchColumns * plan.patchRows;
            plan.rowBlocks = p.groupSize() * patchesOfPlane(p, plan) * extent[0];
            return;
        }
        plan.splits = splittable(p) && rows <= mostSplitRows ? static_cast<uint32_t>(splits(plan.s.keys)) : 1;
        plan.rowsPerBlock = tiling.unitRows;
        plan.rowBlocks = ceilDivide(rows, plan.rowsPerBlock);
    }
};

// Multiply-adds, hidden pairs too.
double workOf(const Problem &p) {
    const double pairs = static_cast<double>(p.tensor(VKATTN_Q).extent[2]) * p.keyTokens * p.kvHeads * p.groupSize();
    return pairs * (p.headDim + p.valueDim) * (p.ragged() ? 1 : p.batch);
}

// One call while it runs.
struct Run {
    Call call;
    const Kernels &own;
    unsigned char *scratch;
    uint64_t scratchBytes, units;

    void compute(uint64_t n, uint32_t thread) const {
        auto *const memory = reinterpret_cast<float *>(scratch + thread * scratchBytes);
        const SequencePlan *end = call.sequences + call.sequenceCount;
        const SequencePlan *after =
            std::upper_bound(call.sequences, end, n, [](uint64_t value, const SequencePlan &plan) { return value < plan.unitsBefore; });
        // Empty sequences have as many units before them as the next one.
        const SequencePlan &plan = after[-1];
        const auto b = static_cast<uint32_t>(&plan - call.sequences);
        const uint64_t within = n - plan.unitsBefore, perHead = plan.rowBlocks * plan.splits;
        Unit unit{};
        unit.s = &plan.s;
        unit.b = b;
        unit.kvHead = static_cast<uint32_t>(within / perHead);
        const uint64_t block = within % perHead / plan.splits;
        const auto split = static_cast<uint32_t>(within % plan.splits);
        // Later rows go first: under a causal mask they have most to do.
        unit.firstRow = (plan.rowBlocks - 1 - block) * plan.rowsPerBlock;
        unit.rows =
            static_cast<uint32_t>(std::min<uint64_t>(plan.rowsPerBlock, uint64_t{plan.s.queries} * call.p.groupSize() - unit.firstRow));
        unit.keyEnd = plan.s.keys;
        if (plan.patchColumns) {
            unit.patch = Shape::patchOf(call.p, plan, block);
            unit.rows = unit.patch.rows * unit.patch.columns;
        }
        if (plan.splits > 1) {
            unit.keyBegin = split * call.tiling.splitKeys;
            unit.keyEnd = std::min(unit.keyBegin + call.tiling.splitKeys, plan.s.keys);
            unit.partial =
                call.partials + plan.partialsBefore + (uint64_t{unit.kvHead} * plan.splits + split) * unit.rows * call.partialFloats();
        }
        own.attend(call, unit, memory);
        if (plan.splits > 1 && call.counters[plan.countersBefore + unit.kvHead].fetch_add(1, std::memory_order_acq_rel) + 1 == plan.splits)
            own.joinSplits(call, plan, unit.kvHead, memory);
    }
};

// Pages that are all there hide nothing.
Problem withPagesLookedAt(const Problem &given, const Operands &operands) {
    Problem p = given;
    if (!p.paged()) return p;
    p.pagesMayBeAbsent = false;
    forSequences(p, operands, [&](uint32_t, const Sequence &s) {
        p.pagesMayBeAbsent = p.pagesMayBeAbsent || Pages{given, operands, s.batch}.anyAbsent(s.keys);
    });
    return p;
}

vkattn_result run(Pool &pool, const Problem &given, const Operands &operands, void *workspace, uint64_t bytes, vkattn_diagnostic *why) {
    const Problem p = withPagesLookedAt(given, operands);
    const Shape shape(p, pool.threadsFor(workOf(p)));
    if (const auto r = checkWorkspace(workspace, bytes, shape.bytes(), "vkattnCpuExplain", why)) return r;
    WorkspaceParts parts(workspace);
    auto *const sequences = parts.take<SequencePlan>(shape.sequenceBytes);
    auto *const counters = parts.take<std::atomic<uint32_t>>(shape.counterBytes);
    auto *const partials = parts.take<float>(shape.partialBytes);
    const BlockBits blocks = BlockBits::gather(p, operands, parts.take<uint32_t>(shape.blockBytes));

    Run run{{p, operands, shape.tiling, sequences, 0, partials, counters, blocks}, shape.own, parts.rest(), shape.scratchBytes, 0};
    uint64_t partialFloats = 0, counterCount = 0;
    forSequences(p, operands, [&](uint32_t b, const Sequence &s) {
        SequencePlan &plan = *new (sequences + b) SequencePlan;
        plan.s = s;
        shape.cut(p, plan);
        plan.unitsBefore = run.units;
        run.units += plan.units(p.kvHeads);
        run.call.sequenceCount = b + 1;
        if (plan.splits == 1) return;
        plan.partialsBefore = partialFloats;
        plan.countersBefore = counterCount;
        partialFloats += uint64_t{p.kvHeads} * plan.splits * s.queries * p.groupSize() * run.call.partialFloats();
        for (uint32_t head = 0; head < p.kvHeads; ++head) new (counters + counterCount++) std::atomic<uint32_t>(0);
    });
    forUnits(pool, static_cast<uint32_t>(std::min<uint64_t>(shape.threads, run.units)), run.units,
             [&](uint64_t n, uint32_t thread) { run.compute(n, thread); });
    return VKATTN_OK;
}

} // namespace

extern "C" vkattn_result vkattnCpuCreatePool(uint32_t threads, vkattn_cpu_pool *pool, vkattn_diagnostic *why) {
    if (!pool) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "pool is NULL");
    if (threads > mostThreads)
        return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "%u threads, expected at most %u, or 0 for one per core", threads, mostThreads);
    try {
        *pool = new vkattn_cpu_pool_t(threadCount(threads, mostThreads));
    } catch (const std::bad_alloc &) {
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a pool of threads");
    }
    return VKATTN_OK;
}

extern "C" void vkattnCpuDestroyPool(vkattn_cpu_pool pool) {
    delete pool;
}

extern "C" vkattn_result vkattnCpuExplain(const vkattn_problem *description, vkattn_cpu_pool pool, vkattn_cpu_plan *out,
                                          vkattn_diagnostic *why) {
    Problem p;
    if (!out) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "plan is NULL");
    if (const auto r = checkStructSize(*out, "plan", "vkattn_cpu_plan", why)) return r;
    if (const auto r = makeProblem(description, p, why)) return r;
    const Shape shape(p, pool ? pool->pool.threadsFor(workOf(p)) : threadsFor(workOf(p), threadCount(0, mostThreads)));
    const Operands none;
    const Call call{p, none, shape.tiling};
    SequencePlan longest; // as long as a sequence may be
    longest.s.queries = p.queryTokens;
    longest.s.keys = p.keyTokens;
    shape.cut(p, longest);
    const bool fewRows = shape.own.takesFewRows(call, longest.s);
    vkattn_cpu_plan plan{};
    plan.threads = shape.threads;
    plan.target = shape.own.shape.target;
    plan.kernel = fewRows ? "few rows" : "tiles";
    plan.vectorLanes = shape.own.shape.lanes;
    const uint64_t rows = uint64_t{p.queryTokens} * p.groupSize();
    plan.rowsPerTile = fewRows                         ? static_cast<uint32_t>(rows)
                       : rows <= shape.own.shape.lanes ? shape.own.shape.lanes
                                                       : shape.own.shape.panelRows;
    plan.keysPerTile = fewRows ? fewRowsKeys : shape.tiling.tileKeys;
    plan.rowsPerUnit = static_cast<uint32_t>(std::min<uint64_t>(rows, longest.rowsPerBlock));
    plan.splits = longest.splits;
    plan.workspaceBytes = shape.bytes();
    writeStruct(*out, plan);
    return VKATTN_OK;
}

extern "C" vkattn_result vkattnCpuRunOn(vkattn_cpu_pool pool, const vkattn_problem *description, const vkattn_operand_memory *memory,
                                        uint32_t count, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why) {
    Bound<Problem> bound;
    if (!pool) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "pool is NULL");
    if (const auto r = bindToCompute(makeProblem, description, memory, count, bound, why)) return r;
    return run(pool->pool, bound.form, bound.operands, workspace, workspaceBytes, why);
}

extern "C" vkattn_result vkattnCpuRun(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                      uint32_t threads, vkattn_diagnostic *why) {
    Bound<Problem> bound;
    if (const auto r = bindToCompute(makeProblem, description, memory, count, bound, why)) return r;
    const Problem &p = bound.form;
    const Operands &operands = bound.operands;
    try {
        Pool pool(Shape(p, std::min(threadCount(threads, UINT64_MAX), mostThreads)).threads);
        pool.shareAnyWork(); // its threads have been started
        const uint64_t bytes = Shape(p, pool.threads()).bytes();
        const std::unique_ptr<unsigned char[]> workspace(new unsigned char[bytes]);
        return run(pool, p, operands, workspace.get(), bytes, why);
    } catch (const std::bad_alloc &) {
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the scratch memory of the threads");
    }
}
