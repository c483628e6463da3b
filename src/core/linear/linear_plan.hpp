// LinearAttention x Caps -> LinearPlan: how the scan is laid out and cut to meet limits. Pure data and pure
// functions; no Vulkan call.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/slices.hpp"
#include "problem/linear/linear.hpp"

namespace vkattn {

// How the stages of linear attention lay out their workgroups (shaders/linear/).
struct LinearTile {
    uint32_t chunkTokens; // slots of a chunk; 1: token by token
    // Of the scan, or of a single token: columns of the state in lanes, and rows of a column in registers or in several lanes.
    uint32_t columnLanes, rowLanes, rowsPerLane, columnsPerLane;
    uint32_t blockTokens;                // slots that a product takes at a time
    uint32_t edgeRows;                   // of the scan: rows of the state that a lane loads or stores at a time
    uint32_t blockRows;                  // of a single token: rows that a lane takes at a time; otherwise 0
    uint32_t shuffleLanes;               // 0: operands come without subgroup shuffles
    uint32_t featureLanes, prepareLanes; // of a workgroup of the other stages
    uint32_t mapChunks, mapFeatures;     // of map.comp: chunks of a workgroup, and random features of a lane
    bool pairsShuffle;                   // slots of a chunk shuffle what they have loaded
    bool wholeSubgroups;                 // and are all of a subgroup
    [[nodiscard]] uint32_t lanes() const { return columnLanes * rowLanes; }
    [[nodiscard]] uint32_t columns() const { return columnLanes * columnsPerLane; }
};

// A chunk's block in the workspace, in words from its beginning (shaders/lib/linear.h).
struct LinearBlock {
    uint32_t read, factors, keysToEnd, keys, rows, keyMap, rowMap, norm, words;
};

// Chunks of keys come first, then reading chunks: of rows that read the state behind the last key. Either
// come in spans, each of which has all stages.
struct LinearPlan : Schedule {
    LinearAttention linear;
    LinearTile tile;
    LinearBlock block;
    uint32_t form;                              // interop.h, formLinear
    uint32_t snapshotTokens, chunksPerSnapshot; // without snapshots more than there are
    uint32_t keyChunks, rowChunks;
    uint32_t spanChunks; // at most
    uint32_t keySpans, rowSpans;
    uint32_t batches;   // batch entries of a dispatch
    uint32_t headParts; // the state heads of a batch entry are cut into so many, a step each
    uint32_t steps;     // of all batch entries and parts
    uint32_t rowPitch, columnPitch;
    uint64_t stateBegin, chunksBegin; // bytes of the workspace

    [[nodiscard]] bool mapped() const { return linear.hasFeatures(); }
    // Features are products with omega, which a stage of its own leaves in the workspace.
    [[nodiscard]] bool storesFeatures() const { return mapped() && linear.randomFeatures() > 0; }
    [[nodiscard]] bool inArrays() const { return linear.hasMaximum() || linear.decaysKeyDims(); }
    [[nodiscard]] bool singleToken() const { return tile.blockRows > 0; }
    [[nodiscard]] bool readsInChunks() const { return (form & interop::formLinearRows) && (form & interop::formLinearCausal); }
    [[nodiscard]] uint32_t headsOfPart() const { return linear.stateHeads / headParts; }
    [[nodiscard]] uint32_t groupHeads() const { return linear.heads / linear.stateHeads; }
    [[nodiscard]] uint32_t spans() const { return keySpans + rowSpans; }
    [[nodiscard]] uint32_t spanOfKeys() const {
        return singleToken() ? 1 : 2 + (mapped() ? 1 : 0) + (storesFeatures() ? 1 + (readsInChunks() ? 1 : 0) : 0);
    }
    [[nodiscard]] uint32_t spanOfRows() const { return 2 + (storesFeatures() ? 1 : 0); }
    [[nodiscard]] uint32_t perStep() const { return keySpans * spanOfKeys() + rowSpans * spanOfRows(); }
};
static_assert(sizeof(LinearPlan) < 4096, "plans live on the stack");

// UNSUPPORTED with the reason where the device's limits cannot be met.
[[nodiscard]] vkattn_result planLinear(const LinearAttention &linear, const PlanLimits &limits, LinearPlan &out, vkattn_diagnostic *why);
// How slices may cut a plan: between any two spans.
[[nodiscard]] SliceUnits sliceUnits(const LinearPlan &plan);
[[nodiscard]] uint32_t mostSlices(const LinearPlan &plan, const PlanLimits &limits);
// The state goes on in the next slice.
[[nodiscard]] inline uint64_t persistentWorkspaceBytes(const LinearPlan &plan) {
    return plan.slices > 1 ? plan.workspaceBytes : 0;
}
// Says what the planner has chosen, and what the choice costs.
void explainLinear(const LinearPlan &plan, const PlanLimits &limits, vkattn_explanation &out);

namespace linear {
// Heads of an operand.
struct HeadRange {
    uint32_t first, count;
};
// Returns those that a part of the state heads takes, of an operand with `own` heads. A count of 0: they do not lie together.
[[nodiscard]] HeadRange headsOfPart(const LinearAttention &linear, uint32_t own, uint32_t part, uint32_t parts);
constexpr uint32_t setUpDispatches = divideUp(linearEnvironmentWords, environmentWordsAtOnce);
[[nodiscard]] Dispatch dispatch(const LinearPlan &plan, uint32_t index);
[[nodiscard]] PipelineSet pipelines(const LinearPlan &plan);
// The dispatch that a span of a step begins with, spans counted over all steps.
[[nodiscard]] uint32_t firstDispatch(const LinearPlan &plan, uint32_t span);
// Bytes that so many batch entries keep of the state.
[[nodiscard]] uint64_t stateBytes(const LinearPlan &plan, uint64_t batches);
} // namespace linear

} // namespace vkattn
