// Problem x Caps -> Plan: which kernel computes attention, and how the problem is cut to meet limits.
// Pure data and pure functions; no Vulkan call.
#pragma once

#include "core/plan/caps.hpp"
#include "core/plan/schedule.hpp"
#include "core/plan/tuning/tuning.hpp"
#include "problem/problem.hpp"

#include <cstdint>

namespace vkattn {

// What the kernels on matrix units add to a plan.
struct MatrixShape {
    uint32_t m, n, k;
    uint32_t subgroupLanes, subgroups, rowBlocks, tileKeys;
    uint32_t paddedDim, paddedValueDim;
    bool wholeWords; // dims of q, k and v fill words
    bool lockstep;   // subgroups are vectors of a CPU
    // Gradients: owned operands lie in shared memory, not in registers.
    bool ownedShared;
};

// What the flash and decode kernels add to a plan.
struct FlashShape {
    FlashTile tile;
    MatrixShape matrix; // where tile.source is sourceMatrices
    uint32_t dimsPerLane, valueDimsPerLane, run, valueRun, shuffleLanes;
    uint32_t dimOrder;                // of K and V in memory, interop.h
    bool valuesInKeys;                // K is loaded once for both products
    bool unpacksHalves;               // of K and V by one instruction (vkattn_caps::exactHalves)
    uint32_t packed;                  // query heads of a group packed as rows
    uint32_t pairTerms;               // interop.h
    uint32_t splitKeys;               // keys of a split; a chunk of keys has ceil(keys / splitKeys) splits
    uint32_t parts;                   // partial results of a row; 0: the output is written directly
    uint32_t patchRows, patchColumns; // of the grid, that a tile is; 0: a tile has neighbouring queries
    uint32_t combineLanes;
    // core/plan/compile_cost.hpp; 0 on matrix units, where there is no estimate
    uint64_t compileOperations;
    // Of the tile that comes first for these dims and is too slow to compile; 0: the first is
    // taken.
    uint64_t passedOverOperations;
    bool options; // bindings past the fourth are used, and the environment
};

struct Kernel; // kernel.hpp

struct Plan : Schedule {
    Problem problem;
    const Kernel *kernel;
    StagedTuning tuning; // staged
    FlashShape flash;    // flash, decode
    // Extents of a chunk; the last one in each direction may be smaller.
    uint32_t chunkBatches, chunkHeads, chunkQueries, chunkKeys;
    uint32_t batchChunks, headChunks, queryChunks, keyChunks;
    uint32_t rowPitch; // workspace elements from one row of scores to the next
    // Elements after the first score; where partial outputs wait, only with several key chunks.
    uint64_t sumsOffset;
    // At the workspace's start: the table of ragged batches and rules (table.hpp); behind it, up to
    // setUpBytes, the environment of the flash kernels. Both are padded to workspaceAlignment. What
    // chunks use follows.
    uint64_t tableBytes, setUpBytes;
    uint32_t setUpDispatches; // before the first chunk
    uint32_t copyGroups;      // workgroups that read blocks, or copy; with rules
    uint32_t orderForm;       // formInTurn or 0: of tiles among workgroups

    [[nodiscard]] uint32_t chunkCount() const { return batchChunks * headChunks * queryChunks * keyChunks; }
    [[nodiscard]] Dispatch dispatch(uint32_t index) const;
    [[nodiscard]] PipelineSet pipelines() const; // every pipeline that the dispatches use
    // Of the descriptor sets of all dispatches.
    [[nodiscard]] uint64_t storageDescriptorCount() const;
    [[nodiscard]] uint32_t dispatchesPerRowChunk() const;
};
static_assert(sizeof(Plan) < 4096, "plans live on the stack");

// A shader may loop so often and no more. Mesa 22's lavapipe leaves a shader after 65,535
// iterations of all its loops together, silently (found 2026-11-21: keys past 65,535 had no
// effect); and one dispatch that runs for seconds meets a GPU watchdog.
constexpr uint32_t maxKeysPerDispatch = 32768; // scores, values: one key an iteration
// Softmax: three loops over the row, four keys an iteration.
constexpr uint32_t maxKeysPerLane = 60000;
// Sequences: two loops over a lane's run, one over the lanes.
constexpr uint32_t maxSequencesPerLane = 29000;

struct PlanLimits {
    Caps caps;
    uint64_t maxWorkspaceBytes;
    FlashTuning tuning;
};

// Gives a plan that has its problem what all kernels have: what the device's class decides, and the
// table (table.hpp).
[[nodiscard]] vkattn_result startPlan(const PlanLimits &limits, Plan &plan, vkattn_diagnostic *why);

} // namespace vkattn
