// The CPU entry points of operations. They cut an operation into units, and the threads of a pool
// compute the units.
#include "cpu/gradient/gradient.hpp"
#include "cpu/operations/work.hpp"
#include "cpu/pool.hpp"
#include "cpu/statistics/statistics.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <atomic>

using namespace vkattn;

namespace {

constexpr uint64_t alignment = 64;

using Kernel = void (*)(const OperationCall &, uint64_t unit, float *scratch);

// The facts that follow from the operation, the processor and the number of threads alone.
struct Cut {
    const OperationKernels &own = operationKernels();
    Kernel compute = nullptr;
    ProjectionTiling tiling;
    uint64_t rowsPerUnit = 0, units = 0, scratchBytes = 0;
    // A second phase, which needs all of the first; 0 units: there is none. The facts of rows are what
    // the first phase leaves to it.
    uint64_t columnUnits = 0, factsBytes = 0;
    uint32_t threads;

    Cut(const Operation &o, const Pool &pool) {
        const uint32_t poolThreads = pool.threadsFor(workOf(o));
        if (o.kind == VKATTN_PROJECTION) {
            cutProjection(o, poolThreads);
        } else {
            const uint64_t elementsPerUnit = o.kind == VKATTN_KEEP ? 1 << 9 : 1 << 14;
            const uint64_t rows = uint64_t{o.batch} * o.groups * o.rows;
            rowsPerUnit = std::max<uint64_t>(elementsPerUnit / o.inner, 1);
            units = ceilOf(rows, rowsPerUnit);
            compute = kernelOf(o.kind);
            scratchBytes = 4 * rowScratch(o);
            if (o.sumsOverRows()) {
                columnUnits = ceilOf(o.inner, gradientColumns);
                factsBytes = 4 * wholeLines(3 * rows);
                scratchBytes = std::max<uint64_t>(scratchBytes, gradientColumns * (2 * sizeof(double) + 2 * sizeof(float)));
            }
        }
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(std::max(units, columnUnits), 1, poolThreads));
    }
    [[nodiscard]] uint64_t bytes() const { return units ? threads * scratchBytes + factsBytes + alignment : 0; }

  private:
    // As Pool::threadsFor counts.
    [[nodiscard]] static double workOf(const Operation &o) {
        const double elements = static_cast<double>(o.batch) * o.groups * o.rows * o.inner;
        if (o.kind == VKATTN_KEEP) return elements * 400; // 8 blocks of random words each
        // A quarter of a block.
        if (o.kind == VKATTN_DROP && o.dropoutThreshold) return elements * 15;
        return elements * (o.kind == VKATTN_PROJECTION ? o.out : 4.0 * std::max(o.averaged, 1u));
    }
    // Of an operation on rows.
    [[nodiscard]] Kernel kernelOf(vkattn_operation_kind kind) const {
        switch (kind) {
        case VKATTN_NORM:
            return own.normalize;
        case VKATTN_ROTARY:
            return own.rotate;
        case VKATTN_ADVANCE:
            return own.advance;
        case VKATTN_MEAN:
            return own.average;
        case VKATTN_KEEP:
            return own.keep;
        case VKATTN_DROP:
            return own.drop;
        case VKATTN_NORM_GRADIENT:
            return own.differentiate;
        default:
            return own.append;
        }
    }
    void cutProjection(const Operation &o, uint32_t poolThreads) {
        compute = own.project;
        const uint64_t entries = uint64_t{o.batch} * o.groups;
        // Both forms sum in an order of their own.
        tiling.fewRows = o.rows <= mostProjectedFewRows && o.tensor(VKATTN_W).unitDims() && !(o.flags & VKATTN_DETERMINISTIC);
        const uint32_t panel = own.panelColumns;
        const uint32_t mostColumns = tiling.fewRows ? 64 : 256, mostRows = 480;
        tiling.columns = static_cast<uint32_t>(ceilOf(std::min(o.out, mostColumns), panel) * panel);
        // Blocks of nearly the same size.
        tiling.rows = static_cast<uint32_t>(ceilOf(std::max(o.rows, 1u), ceilOf(std::max(o.rows, 1u), mostRows)));
        tiling.columnBlocks = ceilOf(o.out, tiling.columns);
        const auto count = [&] { return units = entries * (tiling.rowBlocks = ceilOf(o.rows, tiling.rows)) * tiling.columnBlocks; };
        // Units are smaller where threads would wait for the last ones. They are no smaller than
        // that, because each packs its part of W.
        while (count() != 0 && tiling.rows > 96 && units < 4ull * poolThreads && units % poolThreads != 0)
            tiling.rows = (tiling.rows + 1) / 2;
        scratchBytes = 4 * ProjectionScratch(o, tiling).total;
    }
};

// One call while it runs.
struct Run {
    OperationCall call;
    const Cut &cut;
    unsigned char *scratch;
    Kernel compute;
    uint64_t units;
    std::atomic<uint64_t> next{0};

    void work(uint32_t thread) {
        auto *const own = reinterpret_cast<float *>(scratch + thread * cut.scratchBytes);
        for (uint64_t n; (n = next.fetch_add(1, std::memory_order_relaxed)) < units;) compute(call, n, own);
    }
    void on(Pool &pool) {
        pool.run(
            cut.threads, [](void *context, uint32_t thread) { static_cast<Run *>(context)->work(thread); }, this);
    }
};

vkattn_result checkGiven(const vkattn_operation *operation, vkattn_diagnostic *why) {
    return operation ? VKATTN_OK : fail(why, invalid, "operation is NULL");
}

} // namespace

extern "C" vkattn_result vkattnCpuCheckOperation(const vkattn_operation *operation, const vkattn_operand_memory *memory, uint32_t count,
                                                 vkattn_diagnostic *why) {
    if (const auto r = checkGiven(operation, why)) return r;
    if (operation->kind == VKATTN_ATTENTION) return vkattnCpuCheckOperands(operation->of.attention, memory, count, why);
    if (operation->kind == VKATTN_ATTENTION_GRADIENT) return checkGradient(operation->of.attentionGradient, memory, count, why);
    if (operation->kind == VKATTN_ATTENTION_STATISTICS) return checkStatistics(operation->of.attentionStatistics, memory, count, why);
    Operation o;
    Operands ignored;
    if (const auto r = makeOperation(operation, o, why)) return r;
    return bindOperands(o, memory, count, ignored, why);
}

extern "C" vkattn_result vkattnCpuOperationWorkspace(const vkattn_operation *operation, vkattn_cpu_pool pool, uint64_t *bytes,
                                                     vkattn_diagnostic *why) {
    if (const auto r = checkGiven(operation, why)) return r;
    if (!bytes) return fail(why, invalid, "bytes is NULL");
    vkattn_cpu_pool_t alone(1);
    if (operation->kind == VKATTN_ATTENTION) {
        vkattn_cpu_plan plan{};
        plan.structSize = sizeof plan;
        if (const auto r = vkattnCpuExplain(operation->of.attention, pool ? pool : &alone, &plan, why)) return r;
        *bytes = plan.workspaceBytes;
        return VKATTN_OK;
    }
    if (operation->kind == VKATTN_ATTENTION_GRADIENT)
        return gradientWorkspace(operation->of.attentionGradient, (pool ? pool : &alone)->pool, *bytes, why);
    if (operation->kind == VKATTN_ATTENTION_STATISTICS)
        return statisticsWorkspace(operation->of.attentionStatistics, (pool ? pool : &alone)->pool, *bytes, why);
    Operation o;
    if (const auto r = makeOperation(operation, o, why)) return r;
    *bytes = Cut(o, (pool ? pool : &alone)->pool).bytes();
    return VKATTN_OK;
}

extern "C" vkattn_result vkattnCpuRunOperation(vkattn_cpu_pool given, const vkattn_operation *operation,
                                               const vkattn_operand_memory *memory, uint32_t count, void *workspace,
                                               uint64_t workspaceBytes, vkattn_diagnostic *why) {
    if (const auto r = checkGiven(operation, why)) return r;
    vkattn_cpu_pool_t alone(1);
    const vkattn_cpu_pool pool = given ? given : &alone;
    if (operation->kind == VKATTN_ATTENTION)
        return vkattnCpuRunOn(pool, operation->of.attention, memory, count, workspace, workspaceBytes, why);
    if (operation->kind == VKATTN_ATTENTION_GRADIENT)
        return runGradient(pool->pool, operation->of.attentionGradient, memory, count, workspace, workspaceBytes, why);
    if (operation->kind == VKATTN_ATTENTION_STATISTICS)
        return runStatistics(pool->pool, operation->of.attentionStatistics, memory, count, workspace, workspaceBytes, why);
    Operation o;
    Operands operands;
    if (const auto r = makeOperation(operation, o, why)) return r;
    if (const auto r = bindOperands(o, memory, count, operands, why)) return r;
    const Cut cut(o, pool->pool);
    if (cut.bytes() && (!workspace || workspaceBytes < cut.bytes()))
        return fail(why, invalid, "workspace has %llu bytes, expected at least %llu: vkattnCpuOperationWorkspace says how many",
                    static_cast<unsigned long long>(workspace ? workspaceBytes : 0), static_cast<unsigned long long>(cut.bytes()));
    if (cut.units == 0) return VKATTN_OK;
    auto *scratch = static_cast<unsigned char *>(workspace);
    scratch += (alignment - reinterpret_cast<uintptr_t>(scratch) % alignment) % alignment;
    const OperationCall call{o, operands, cut.tiling, cut.rowsPerUnit, reinterpret_cast<float *>(scratch)};
    Run{call, cut, scratch + cut.factsBytes, cut.compute, cut.units}.on(pool->pool);
    if (cut.columnUnits) Run{call, cut, scratch + cut.factsBytes, cut.own.sumGradients, cut.columnUnits}.on(pool->pool);
    return VKATTN_OK;
}
