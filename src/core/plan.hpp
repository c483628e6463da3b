// Problem x Caps -> Plan: which kernel, how the problem is cut to meet limits, and the list of dispatches. Pure data and pure functions;
// no Vulkan call. A plan is small and holds no list: dispatch(n) makes the n-th dispatch, so recording allocates nothing.
#pragma once

#include "core/caps.hpp"
#include "core/tuning.hpp"
#include "problem/problem.hpp"

#include <bitset>
#include <cstdint>

namespace vkattn {

enum class Stage : uint32_t { scores, bias, mask, softmax, values };
constexpr uint32_t stageCount = 5;

// Everything that makes one pipeline differ from another. Token counts, strides and offsets are never part of it.
struct PipelineKey {
    Stage stage;
    TileClass tile;    // scores, values
    bool firstIsHalf;  // scores: q; bias: bias; softmax: weights; values: v
    bool secondIsHalf; // scores: k; values: out
    bool softcap;      // scores
    [[nodiscard]] constexpr uint32_t index() const {
        return (((static_cast<uint32_t>(stage) * tileClassCount + tile) * 2 + firstIsHalf) * 2 + secondIsHalf) * 2 + softcap;
    }
};
constexpr uint32_t pipelineKeyCount = stageCount * tileClassCount * 8;
[[nodiscard]] constexpr PipelineKey pipelineKey(uint32_t index) {
    const uint32_t stageAndTile = index / 8;
    return {static_cast<Stage>(stageAndTile / tileClassCount), static_cast<TileClass>(stageAndTile % tileClassCount), (index & 4) != 0,
            (index & 2) != 0, (index & 1) != 0};
}
using PipelineSet = std::bitset<pipelineKeyCount>; // by PipelineKey::index()

constexpr uint32_t operandsPerDispatch = 4;
constexpr uint32_t noPushWord = ~0u;

struct Operand {
    vkattn_role role;
    uint64_t beginBytes, endBytes; // what is accessed, from the start of the role's binding
    uint64_t firstByte;            // where the element lies that indices count from
    uint32_t basePushWord;         // push-constant word that gets the first element's index in the descriptor; noPushWord: none
    uint32_t elementSize;          // bytes
    bool writes;
};

struct Dispatch {
    PipelineKey key;
    Operand operands[operandsPerDispatch]; // by binding number
    uint32_t pushWords[32];
    uint32_t pushBytes;
    uint32_t groups[3];
    bool barrierBefore; // needs the results of an earlier dispatch of this plan, or overwrites what one read
};

struct Plan {
    Problem problem;
    StagedTuning tuning;
    uint32_t chunkBatches, chunkHeads, chunkQueries, chunkKeys; // extents of a chunk; the last one in each direction may be smaller
    uint32_t batchChunks, headChunks, queryChunks, keyChunks;
    uint32_t rowPitch;   // workspace elements from one row of scores to the next
    uint64_t sumsOffset; // workspace elements; where partial outputs wait, only with several key chunks
    uint64_t workspaceBytes;
    uint32_t workspaceAlignment;
    uint32_t dispatchCount;

    [[nodiscard]] uint32_t chunkCount() const { return batchChunks * headChunks * queryChunks * keyChunks; }
    [[nodiscard]] const char *kernelName() const { return "staged"; }
    [[nodiscard]] Dispatch dispatch(uint32_t index) const;
    [[nodiscard]] PipelineSet pipelines() const; // every pipeline that the dispatches use
    [[nodiscard]] uint32_t dispatchesPerRowChunk() const;
};

// A shader may loop so often and no more. Mesa 22's lavapipe leaves a shader after 65,535 iterations of all its loops together, silently
// (found 2026-11-21: keys past 65,535 had no effect); and one dispatch that runs for seconds meets a GPU watchdog.
constexpr uint32_t maxKeysPerDispatch = 32768; // scores, values: one key an iteration
constexpr uint32_t maxKeysPerLane = 60000;     // softmax: three loops over the row, four keys an iteration

struct PlanLimits {
    Caps caps;
    uint64_t maxWorkspaceBytes;
};

[[nodiscard]] vkattn_result makePlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why);

// Whether the staged kernel can run on such a device at all; UNSUPPORTED with the reason otherwise.
[[nodiscard]] vkattn_result stagedSupported(const Caps &caps, vkattn_diagnostic *why);

} // namespace vkattn
