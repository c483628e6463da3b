// What the planner chooses and why, in numbers and words.
#include "core/kernels/coopmat.hpp"
#include "core/kernels/flash.hpp"
#include "core/plan/slices.hpp"
#include "core/kernels/staged.hpp"
#include "core/plan/work.hpp"
#include "lib/interop.h"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vkattn {
namespace {

const char *form(const Plan &plan) {
    if (plan.kernel == VKATTN_KERNEL_STAGED) return "";
    const FlashTile &tile = plan.flash.tile;
    if (tile.source == interop::sourceMatrices)
        return plan.kernel == VKATTN_KERNEL_FLASH_COOPMAT ? "matrix units, softmax through shared memory"
                                                          : "matrix units, softmax in matrices";
    if (tile.dimLanes > 1) return tile.subgroups ? "dims in lanes, subgroup shuffles" : "dims in lanes, shared memory";
    if (tile.keyLanes > 1) return "keys in lanes";
    return tile.source == interop::sourceShared     ? "rows in lanes, K and V through shared memory"
           : tile.source == interop::sourceShuffled ? "rows in lanes, K and V through subgroup shuffles"
                                                    : "rows in lanes";
}

void describeChoice(const Problem &p, const PlanLimits &limits, const Plan &plan, vkattn_explanation &out) {
    const auto print = [&](const char *text) { std::snprintf(out.choice, sizeof out.choice, "%s", text); };
    if (p.kernel != VKATTN_KERNEL_AUTO) return print("it was asked for");
    const unsigned long long rows = uint64_t{p.queryTokens} * p.groupSize();
    if (plan.kernel == VKATTN_KERNEL_DECODE)
        std::snprintf(
            out.choice, sizeof out.choice,
            "%llu query rows share each key head, at most %u: lanes go along the keys, and the heads of a group are packed as rows", rows,
            limits.tuning.decodeRows);
    else if (plan.kernel == VKATTN_KERNEL_FLASH)
        std::snprintf(out.choice, sizeof out.choice,
                      "%llu query rows share each key head, over %u: tiles of rows reuse every key they load", rows,
                      limits.tuning.decodeRows);
    else if (onMatrixUnits(plan.kernel))
        std::snprintf(out.choice, sizeof out.choice,
                      "q, k and v are of a type that the device's matrix units take, and %llu query rows share each key head, at least %u: "
                      "both products run there",
                      rows, limits.tuning.matrixRows);
    else
        print("neither flash nor decode can take the problem");
}

// Why AUTO did not choose a kernel that could run.
const char *whyNot(vkattn_kernel kernel, const Plan &chosen, const PlanLimits &limits) {
    if (chosen.problem.kernel != VKATTN_KERNEL_AUTO) return "another was asked for";
    if (passedOver(kernel, limits.caps)) return "it can run, but others were measured to be faster on this device";
    if (onMatrixUnits(kernel))
        return kernel == VKATTN_KERNEL_FLASH_COOPMAT2 ? "it can run, but only who asks for it gets it: it was never timed on a GPU"
               : !limits.tuning.matrixRows            ? "it can run, but the matrix units of a device of type CPU are loops of its driver"
                                                      : "it can run, but too few query rows share a key to fill a matrix";
    if (kernel == VKATTN_KERNEL_STAGED) return "it can run, but keeps all scores in memory";
    if (onMatrixUnits(chosen.kernel)) return "it can run, but without the device's matrix units";
    return kernel == VKATTN_KERNEL_FLASH ? "it can run, but too few query rows share a key to fill its tiles"
                                         : "it can run, but so many query rows share a key that tiles of rows reuse it better";
}

} // namespace

vkattn_result explainPlan(const Problem &p, const PlanLimits &limits, vkattn_explanation &out, vkattn_diagnostic *why) {
    Plan plan;
    if (const auto r = makePlan(p, limits, plan, why)) return r;
    out = vkattn_explanation{};
    out.structSize = sizeof out;
    out.kernel = plan.kernel;
    out.kernelName = plan.kernelName();
    out.form = form(plan);
    out.dispatchCount = plan.dispatchCount;
    out.pipelineCount = plan.pipelines().size();
    out.chunkCount = plan.chunkCount();
    out.workspaceBytes = plan.workspaceBytes;
    out.splits = 1;
    if (plan.kernel != VKATTN_KERNEL_STAGED) {
        const FlashShape &shape = plan.flash;
        out.rowsPerWorkgroup = shape.tile.rows();
        out.keysPerStep = shape.tile.step();
        out.packedHeads = shape.packed;
        if (shape.splitKeys) out.splits = std::max((p.keyTokens + shape.splitKeys - 1) / shape.splitKeys, 1u);
    }
    // The first main dispatch is in the first chunk of rows, or, without keys, nowhere among what may be 10^9.
    for (uint32_t n = 0; n < std::min(plan.dispatchCount, plan.setUpDispatches() + plan.dispatchesPerRowChunk()); ++n) {
        const Dispatch d = plan.dispatch(n);
        if (d.key.stage != Stage::scores && d.key.stage < Stage::flashPlain) continue;
        std::copy_n(d.groups, 3, out.groups);
        out.workgroupInvocations = d.key.constants[0];
        break;
    }
    out.flopsFull = p.flops();
    out.flops = visibleFlops(p);
    for (int n = 0; n < VKATTN_WORKSPACE; ++n) {
        const auto role = static_cast<vkattn_role>(n);
        (isOutput(role) ? out.bytesWritten : out.bytesRead) += static_cast<double>(p.bytesNeeded(role));
    }
    // Scores and weights go through memory in the staged kernel, partial results in the others.
    const double passes = plan.kernel == VKATTN_KERNEL_STAGED ? 2.0 * static_cast<double>(plan.chunkCount()) : 1.0;
    out.bytesRead += passes * static_cast<double>(plan.workspaceBytes);
    out.bytesWritten += passes * static_cast<double>(plan.workspaceBytes);
    out.sliceCount = p.slices;
    out.maxSlices = mostSlices(plan, limits);
    out.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    // Of very many slices no more than maxSlices have work: what the largest of those has bounds it.
    Plan dealt = plan;
    if (p.slices > out.maxSlices) {
        Problem cut = p;
        cut.slices = out.maxSlices;
        if (makePlan(cut, limits, dealt, nullptr) != VKATTN_OK) dealt.dispatchCount = 0;
    }
    out.largestSlice = largestShare(dealt);
    out.probabilityUnit = weightRounding(plan).unit;
    out.probabilityFloor = weightRounding(plan).floor;
    describeChoice(p, limits, plan, out);
    for (uint32_t n = VKATTN_KERNEL_STAGED; n < VKATTN_KERNEL_COUNT; ++n) {
        const auto kernel = static_cast<vkattn_kernel>(n);
        if (kernel == plan.kernel) continue;
        vkattn_diagnostic reason{};
        Plan other;
        if (makePlanFor(kernel, p, limits, other, &reason) != VKATTN_OK)
            std::snprintf(out.rejected[kernel], sizeof out.rejected[kernel], "%.251s", reason.message);
        else
            std::snprintf(out.rejected[kernel], sizeof out.rejected[kernel], "%s; would take %u dispatches and %llu bytes of workspace",
                          whyNot(kernel, plan, limits), other.dispatchCount, static_cast<unsigned long long>(other.workspaceBytes));
    }
    return VKATTN_OK;
}

} // namespace vkattn
