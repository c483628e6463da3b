// Problem x Caps -> Plan: which kernel, how the problem is cut to meet limits, and the list of
// dispatches. Pure data and pure functions; no Vulkan call. A plan is small and holds no list:
// dispatch(n) makes the n-th dispatch, so recording allocates nothing.
#pragma once

#include "core/plan/caps.hpp"
#include "core/plan/module.hpp"
#include "core/plan/tuning.hpp"
#include "problem/problem.hpp"

#include <cstdint>
#include <initializer_list>

namespace vkattn {

constexpr uint32_t maxOperandsPerDispatch = 16;

// Everything that makes one pipeline differ from another: the module and its specialization
// constants, ids 0, 1, 2, ... in the order of the shader's constant_id declarations. Token counts,
// strides and offsets are never part of it.
struct PipelineKey {
    static constexpr uint32_t maxConstants = 32;
    Module module{};
    uint32_t constantCount = 0;
    uint32_t constants[maxConstants] = {}; // 0 past the count

    constexpr PipelineKey() = default;
    constexpr PipelineKey(Module of, std::initializer_list<uint32_t> values) : module(of) {
        for (const uint32_t value : values) constants[constantCount++] = value;
    }
    // Inline: the default calls memcmp for every look-up.
    [[nodiscard]] constexpr bool operator==(const PipelineKey &other) const {
        if (module != other.module || constantCount != other.constantCount) return false;
        for (uint32_t n = 0; n < constantCount; ++n)
            if (constants[n] != other.constants[n]) return false;
        return true;
    }
    [[nodiscard]] constexpr uint32_t hash() const { // FNV-1a over words
        uint32_t h = (2166136261u ^ static_cast<uint32_t>(module)) * 16777619u;
        for (uint32_t n = 0; n < constantCount; ++n) h = (h ^ constants[n]) * 16777619u;
        return h ^ h >> 15;
    }
};

// The distinct pipelines of one plan. A plan of any kernel has fewer than the capacity
// (tests/unit/plan_test.cpp).
class PipelineSet {
  public:
    static constexpr uint32_t capacity = 32;
    constexpr void add(const PipelineKey &key) {
        if (!contains(key) && size_ < capacity) keys_[size_++] = key;
    }
    [[nodiscard]] constexpr bool contains(const PipelineKey &key) const {
        for (const PipelineKey &each : *this)
            if (each == key) return true;
        return false;
    }
    [[nodiscard]] constexpr uint32_t size() const { return size_; }
    [[nodiscard]] constexpr const PipelineKey *begin() const { return keys_; }
    [[nodiscard]] constexpr const PipelineKey *end() const { return keys_ + size_; }

  private:
    PipelineKey keys_[capacity];
    uint32_t size_ = 0;
};

constexpr uint32_t noPushWord = ~0u;

struct Operand {
    vkattn_role role;
    uint64_t beginBytes, endBytes; // what is accessed, from the start of the role's binding
    uint64_t firstByte;            // where the element lies that indices count from
    // push-constant word that gets the first element's index in the descriptor; noPushWord: none
    uint32_t basePushWord;
    uint32_t elementSize; // bytes
    bool writes;
};

// Made anew at each record: what the counts do not cover stays as it is in memory, clearing 1 KB
// took a third of it.
struct Dispatch {
    PipelineKey key;
    uint32_t operandCount = 0;
    Operand operands[maxOperandsPerDispatch]; // by binding number; all slots of the stage
    uint32_t pushWords[32];
    uint32_t pushBytes = 0;
    uint32_t groups[3] = {};
    // Needs the results of an earlier dispatch of this plan, or overwrites what one read.
    bool barrierBefore = false;
};

// What the kernels on matrix units add to that.
struct MatrixShape {
    uint32_t m, n, k;
    uint32_t subgroupLanes, subgroups, rowBlocks, tileKeys;
    uint32_t paddedDim, paddedValueDim;
    bool wholeWords; // dims of q, k and v fill words
    bool lockstep;   // subgroups are vectors of a CPU
};

// What the flash and decode kernels add to a plan.
struct FlashShape {
    FlashTile tile;
    MatrixShape matrix; // where tile.source is sourceMatrices
    uint32_t dimsPerLane, valueDimsPerLane, run, valueRun, shuffleLanes;
    uint32_t dimOrder;  // of K and V in memory, interop.h
    uint32_t packed;    // query heads of a group packed as rows
    uint32_t pairTerms; // interop.h
    uint32_t splitKeys; // keys of a split; a chunk of keys has ceil(keys / splitKeys) splits
    uint32_t parts;     // partial results of a row; 0: the output is written directly
    uint32_t combineLanes;
    // core/plan/compile_cost.hpp; 0 on matrix units, where there is no estimate
    uint64_t compileOperations;
    // Of the tile that comes first for these dims and is too slow to compile; 0: the first is
    // taken.
    uint64_t passedOverOperations;
    bool options; // bindings past the fourth are used, and the environment
};

struct Kernel; // kernel.hpp

struct Plan {
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
    // At the workspace's start: the table of sequences of a ragged batch; behind it, up to
    // setUpBytes, the environment of the flash kernels. Both are padded to workspaceAlignment. What
    // chunks use follows.
    uint64_t tableBytes, setUpBytes;
    uint64_t workspaceBytes;
    uint32_t workspaceAlignment;
    uint32_t setUpDispatches; // before the first chunk
    uint32_t dispatchCount;

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

} // namespace vkattn
