// What operations over tiles share: the backward pass on lanes (shaders/gradient/tiles.glsl) and on matrix
// units (shaders/gradient/matrices.glsl), and statistics of attention (shaders/statistics/tiles.glsl). Each
// has a pass that owns query rows and one that owns keys, and items of the other side pass by.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"

#include <span>

namespace vkattn {

// How a pass lays out its workgroups: lanes, for head and value dims up to maxDim.
struct PassTile {
    uint32_t maxDim;
    uint32_t dimLanes, ownerLanes; // invocations = product
    // Registers: ownedPerLane * stepItems pairs, and ownedPerLane * (head + value dims) / dimLanes floats
    // for the operands, and as many for the sums.
    uint32_t ownedPerLane, stepItems;
    // interop.h: sourceDirect, sourceShared, sourceShuffled; sourceMatrices: made from a MatrixShape
    uint32_t source;
    uint32_t tileItems; // sourceShared: in shared memory, a multiple of the step
    uint32_t rolledEdges;
    [[nodiscard]] constexpr uint32_t invocations() const { return dimLanes * ownerLanes; }
    [[nodiscard]] constexpr uint32_t owned() const { return ownerLanes * ownedPerLane; }
};

// The pass that owns query rows, or the one that owns keys.
struct TiledPass {
    PassTile tile;
    uint32_t dimsPerLane, run;
    uint32_t dimOrder; // of what passes by, interop.h
};

// The first tile that takes the dims; a maxDim of 0: none does.
[[nodiscard]] PassTile tileFor(uint32_t dim, std::span<const PassTile> tiles);
// Of CPU devices a lane is an item, and what passes by comes by one load of neighbouring dims and subgroup
// shuffles. Mesa before 23 is fast with unrolled arrays only (core/plan/tuning.cpp); later versions, with clustered
// subgroup operations, keep arrays in memory well too.
[[nodiscard]] PassTile cpuPassTile(const Caps &caps, uint32_t dims, uint32_t ownedPerLane, uint32_t stepItems, bool rolledEdges = false);
// Of GPUs lanes share the dims of an item, so that its operands and sums fit registers. Not timed on a GPU yet.
[[nodiscard]] PassTile gpuPassTile(bool ownsKeys, uint32_t dim, uint32_t stepItems);
// Whether the device's workgroups are large enough.
[[nodiscard]] bool fits(const PassTile &tile, const Caps &caps);
// Whether subgroups shuffle, among so many lanes as the tiles need.
[[nodiscard]] bool shuffles(const Caps &caps);
[[nodiscard]] uint32_t shuffleLanes(const Caps &caps);

// How a lane has the dims of what passes by, one token of which is a row of `passing`: how many, how many
// neighbours of them at a time, and their order. As in core/kernels/flash_plan.cpp.
struct PassingDims {
    uint32_t perLane, run, order;
};
[[nodiscard]] PassingDims passingDims(const PassTile &tile, const Tensor &passing, uint32_t shuffleLanes);
[[nodiscard]] const char *formText(const PassTile &tile);
void explainTile(const Plan &forward, const PassTile &tile, vkattn_explanation &out);

// How an operation words what it refuses.
struct TiledOperation {
    const char *name;
    bool plural;         // of the name: "statistics need", "the kernel needs"
    const char *instead; // what to do
};
// UNSUPPORTED, of the operation that `predicate` says something of.
[[nodiscard]] vkattn_result refuse(const TiledOperation &of, const char *predicate, vkattn_diagnostic *why);
// `what` of `operand` spans more than one binding holds.
[[nodiscard]] vkattn_result refuseOperand(const TiledOperation &of, const char *what, const char *operand, uint64_t bytes, const Caps &caps,
                                          vkattn_diagnostic *why);
// The least workspace is more than one binding holds.
[[nodiscard]] vkattn_result refuseWorkspace(const TiledOperation &of, uint64_t bytes, const Caps &caps, vkattn_diagnostic *why);
// Whether the device binds what a pass binds, and whether heads of a key head have numbers of 16 bits.
[[nodiscard]] vkattn_result checkBindings(const TiledOperation &of, const Problem &p, const Caps &caps, vkattn_diagnostic *why);
// Places the environment, of so many words and with what heads have behind it, in the workspace of `forward`.
[[nodiscard]] vkattn_result setEnvironment(const TiledOperation &of, uint32_t words, Plan &forward, const Caps &caps,
                                           vkattn_diagnostic *why);
[[nodiscard]] vkattn_result setDispatchCount(const TiledOperation &of, double count, Schedule &plan, vkattn_diagnostic *why);

// Of an output, in the environment.
[[nodiscard]] GradientStrides passStrides(const Tensor &);
// What all dispatches of a plan bind, so many of which are passes.
[[nodiscard]] uint64_t storageDescriptors(const Schedule &plan, uint64_t passes);

} // namespace vkattn
