// How passes over tiles lay out their workgroups: shaders/gradient/tiles.glsl and
// shaders/statistics/tiles.glsl on lanes, shaders/gradient/matrices.glsl on matrix units.
#pragma once

#include "core/plan/plan.hpp"

#include <cstdint>

namespace vkattn {

// Lanes of a workgroup, for head and value dims up to maxDim.
struct GradientTile {
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

// A pass over tiles: the one that owns query rows, or the one that owns keys.
struct GradientPass {
    GradientTile tile;
    MatrixShape matrix; // where tile.source is sourceMatrices; its rows are the items that the pass owns
    uint32_t dimsPerLane, valueDimsPerLane, run, valueRun;
    uint32_t dimOrder; // of what passes by, interop.h
    bool head, value;  // dQ or dK, and dV: the pass has them to compute
    // Of a problem with slices the pass is cut by what it owns: workgroups in each dispatch but the last.
    uint32_t groupsAtOnce;
};

struct GradientTiles {
    GradientPass rows, keys;
    uint32_t shuffleLanes, pairTerms;
};

// Returns the dims of a lane of such a tile, and how many neighbours of them a lane takes at a time: as in
// core/kernels/flash_plan.cpp.
[[nodiscard]] uint32_t dimsOfLane(const GradientTile &tile, uint32_t dim, uint32_t shuffleLanes);
[[nodiscard]] uint32_t runOf(const GradientTile &tile, uint32_t dim, uint32_t dimsPerLane, vkattn_dtype dtype);

// Returns the tile for the dims; a maxDim of 0: the table has none.
[[nodiscard]] GradientTile gradientTile(const Caps &caps, bool ownsKeys, uint32_t dim);

} // namespace vkattn
