// LinearGradient x Caps -> LinearGradientPlan: how the way out and back of the scan is laid out and cut to meet limits.
// Pure data and pure functions; no Vulkan call.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "problem/linear/linear_gradient.hpp"

namespace vkattn {

// How the scans lay out their workgroups (shaders/linear/gradient/).
struct LinearGradientTile {
    uint32_t chunkTokens; // slots of a chunk; 1: token by token
    uint32_t lanes;
    uint32_t columnsPerBlock, rowsPerBlock; // of the state, in registers of the scans that have rows, and columns, in lanes
    uint32_t rowsPerLane, columnsPerLane;   // of the side in lanes
    uint32_t shuffleLanes;                  // 0: operands come without subgroup shuffles
    uint32_t elementLanes;                  // of workgroups of the other stages
};

// Chunks of keys come first, then reading chunks: of rows that read the state behind the last key. They come in spans,
// whose states are kept on the way out and computed again, chunk by chunk, on the way back.
struct LinearGradientPlan : Schedule {
    LinearGradient gradient;
    LinearGradientTile tile;
    uint32_t form;                                  // interop.h, formLinear
    uint32_t words[linearGradientEnvironmentWords]; // the environment
    uint32_t rowPitch, columnPitch, rowBlocks, columnBlocks;
    uint32_t keyChunks, chunks;         // chunks: with reading chunks
    uint32_t spanChunks, spans;         // spanChunks: at most
    uint32_t batches, batchSteps;       // batch entries of a dispatch
    uint32_t outwardRecord, backRecord; // words of the states of a unit, of either way
    uint32_t outwardStages, backStages; // of a span

    [[nodiscard]] const LinearAttention &linear() const { return gradient.forward; }
    [[nodiscard]] bool mapped() const { return linear().hasFeatures(); }
    [[nodiscard]] bool rowFactors() const { return linear().hasMaximum() || linear().decaysKeyDims(); }
    [[nodiscard]] uint32_t groupHeads() const { return linear().heads / linear().stateHeads; }
    // With that of the delta rules.
    [[nodiscard]] uint32_t readHeads() const { return groupHeads() + (linear().isDelta() ? 1 : 0); }
    [[nodiscard]] bool reads() const { return linear().uses(VKATTN_OUT) && linear().queryTokens != 0; }
    [[nodiscard]] bool needsRows() const {
        return gradient.uses(VKATTN_D_K) || gradient.uses(VKATTN_D_DECAY) || gradient.uses(VKATTN_D_STATE_IN);
    }
    [[nodiscard]] bool needsColumns() const { return linear().isDelta() || gradient.uses(VKATTN_D_V); }
    [[nodiscard]] uint32_t perStep() const {
        return 2 + (spans - 1) * outwardStages + spans * backStages + (gradient.uses(VKATTN_D_STATE_IN) ? 1 : 0);
    }
};
static_assert(sizeof(LinearGradientPlan) < 4096, "plans live on the stack");

// UNSUPPORTED with the reason where the device's limits cannot be met.
[[nodiscard]] vkattn_result planLinearGradient(const LinearGradient &gradient, const PlanLimits &limits, LinearGradientPlan &out,
                                               vkattn_diagnostic *why);
// Gradients are one slice.
[[nodiscard]] inline uint64_t persistentWorkspaceBytes(const LinearGradientPlan &) {
    return 0;
}
[[nodiscard]] inline uint32_t mostSlices(const LinearGradientPlan &, const PlanLimits &) {
    return 1;
}
// Says what the planner has chosen, and what the choice costs.
void explainLinearGradient(const LinearGradientPlan &plan, const PlanLimits &limits, vkattn_explanation &out);

namespace linear_gradient {
constexpr uint32_t setUpDispatches = divideUp(linearGradientEnvironmentWords, environmentWordsAtOnce);
// The stages of a span; the two of `out` alone are those of the way out.
enum class Stage : uint32_t {
    gatherKeys,
    gatherRows,
    gatherValues,
    gatherGiven,
    gatherDecays,
    gatherStrengths,
    maxima,
    exponents,
    decays,
    pairsOfKeys,
    columnsOut,
    pairs,
    columnsBackFirst, // of delta rules, whose rows need dv
    rowsOut,
    finishRows,
    columnsBack,
    rowsBack,
    finishKeys,
    finishDecays,
    finishStrengths,
    scatterRows,
    scatterKeys,
    scatterValues,
    scatterDecays,
    scatterStrengths,
    count
};
struct StageList {
    Stage stages[static_cast<uint32_t>(Stage::count)];
    uint32_t count = 0;
};
[[nodiscard]] StageList stagesOf(const LinearGradientPlan &plan, bool outward);
[[nodiscard]] Dispatch dispatch(const LinearGradientPlan &plan, uint32_t index);
[[nodiscard]] PipelineSet pipelines(const LinearGradientPlan &plan);
// The first scan with rows of the state in lanes.
[[nodiscard]] uint32_t mainDispatch(const LinearGradientPlan &plan);
} // namespace linear_gradient

} // namespace vkattn
