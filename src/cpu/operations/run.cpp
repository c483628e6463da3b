// The CPU entry points of operations. They cut an operation into units, and the threads of a pool
// compute the units.
#include "cpu/entry.hpp"
#include "cpu/gradient/gradient.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear_gradient/linear_gradient.hpp"
#include "cpu/operations/work.hpp"
#include "cpu/statistics/statistics.hpp"
#include "cpu/visible_blocks/visible_blocks.hpp"

#include <algorithm>

using namespace vkattn;

namespace {

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
            units = ceilDivide(rows, rowsPerUnit);
            compute = kernelOf(o.kind);
            scratchBytes = 4 * rowScratch(o);
            if (o.sumsOverRows()) {
                columnUnits = ceilDivide(o.inner, gradientColumns);
                factsBytes = 4 * wholeLines(3 * rows);
                scratchBytes = std::max<uint64_t>(scratchBytes, gradientColumns * (2 * sizeof(double) + 2 * sizeof(float)));
            }
        }
        threads = static_cast<uint32_t>(std::clamp<uint64_t>(std::max(units, columnUnits), 1, poolThreads));
    }
    [[nodiscard]] uint64_t bytes() const { return units ? threads * scratchBytes + factsBytes + workspaceAlignment : 0; }

  private:
    // As Pool::threadsFor counts.
    [[nodiscard]] static double workOf(const Operation &o) {
        const double elements = static_cast<double>(o.batch) * o.groups * o.rows * o.inner;
        if (o.kind == VKATTN_KEEP) return elements * 400; // 8 blocks of random words each
        // A quarter of a block.
        if (o.kind == VKATTN_DROP && o.dropoutThreshold) return elements * 15;
        if (o.kind == VKATTN_HADAMARD) return elements * 16;
        return elements * (o.kind == VKATTN_PROJECTION ? o.out : 4.0 * std::max(o.averaged, o.parts));
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
        case VKATTN_MERGE:
            return own.merge;
        case VKATTN_HADAMARD:
            return own.hadamard;
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
        tiling.columns = static_cast<uint32_t>(ceilDivide(std::min(o.out, mostColumns), panel) * panel);
        // Blocks of nearly the same size.
        tiling.rows = static_cast<uint32_t>(ceilDivide(std::max(o.rows, 1u), ceilDivide(std::max(o.rows, 1u), mostRows)));
        tiling.columnBlocks = ceilDivide(o.out, tiling.columns);
        const auto count = [&] { return units = entries * (tiling.rowBlocks = ceilDivide(o.rows, tiling.rows)) * tiling.columnBlocks; };
        // Units are smaller where threads would wait for the last ones. They are no smaller than
        // that, because each packs its part of W.
        while (count() != 0 && tiling.rows > 96 && units < 4ull * poolThreads && units % poolThreads != 0)
            tiling.rows = (tiling.rows + 1) / 2;
        scratchBytes = 4 * ProjectionScratch(o, tiling).total;
    }
};

void run(Pool &pool, const Cut &cut, const Operation &o, const Operands &operands, WorkspaceParts parts) {
    if (cut.units == 0) return;
    const OperationCall call{o, operands, cut.tiling, cut.rowsPerUnit, parts.take<float>(cut.factsBytes)};
    unsigned char *const scratch = parts.rest();
    const auto compute = [&](Kernel kernel, uint64_t units) {
        forUnits(pool, cut.threads, units, [&](uint64_t unit, uint32_t thread) {
            kernel(call, unit, reinterpret_cast<float *>(scratch + thread * cut.scratchBytes));
        });
    };
    compute(cut.compute, cut.units);
    if (cut.columnUnits) compute(cut.own.sumGradients, cut.columnUnits);
}

vkattn_result checkGiven(const vkattn_operation *operation, vkattn_diagnostic *why) {
    return operation ? VKATTN_OK : fail(why, invalid, "operation is NULL");
}

} // namespace

extern "C" vkattn_result vkattnCpuCheckOperation(const vkattn_operation *operation, const vkattn_operand_memory *memory, uint32_t count,
                                                 vkattn_diagnostic *why) {
    if (const auto r = checkGiven(operation, why)) return r;
    if (operation->kind == VKATTN_ATTENTION) return vkattnCpuCheckOperands(operation->of.attention, memory, count, why);
    if (operation->kind == VKATTN_ATTENTION_GRADIENT)
        return checkOperands(makeGradient, operation->of.attentionGradient, memory, count, why);
    if (operation->kind == VKATTN_ATTENTION_STATISTICS)
        return checkOperands(makeStatistics, operation->of.attentionStatistics, memory, count, why);
    if (operation->kind == VKATTN_VISIBLE_BLOCKS) return checkOperands(makeVisibleBlocks, operation->of.visibleBlocks, memory, count, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION) return checkLinear(operation->of.linearAttention, memory, count, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION_GRADIENT)
        return checkOperands(makeLinearGradient, operation->of.linearGradient, memory, count, why);
    return checkOperands(makeOperation, operation, memory, count, why);
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
    if (operation->kind == VKATTN_VISIBLE_BLOCKS)
        return visibleBlocksWorkspace(operation->of.visibleBlocks, (pool ? pool : &alone)->pool, *bytes, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION)
        return linearWorkspace(operation->of.linearAttention, (pool ? pool : &alone)->pool, *bytes, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION_GRADIENT)
        return linearGradientWorkspace(operation->of.linearGradient, (pool ? pool : &alone)->pool, *bytes, why);
    return workspaceOf<Cut>(makeOperation, operation, (pool ? pool : &alone)->pool, *bytes, why);
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
    if (operation->kind == VKATTN_VISIBLE_BLOCKS)
        return runVisibleBlocks(pool->pool, operation->of.visibleBlocks, memory, count, workspace, workspaceBytes, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION)
        return runLinear(pool->pool, operation->of.linearAttention, memory, count, workspace, workspaceBytes, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION_GRADIENT)
        return runLinearGradient(pool->pool, operation->of.linearGradient, memory, count, workspace, workspaceBytes, why);
    return runBound<Cut>(pool->pool, makeOperation, operation, memory, count, workspace, workspaceBytes, why,
                         [&](const Cut &cut, const Operation &o, const Operands &operands, WorkspaceParts parts) {
                             run(pool->pool, cut, o, operands, parts);
                         });
}
