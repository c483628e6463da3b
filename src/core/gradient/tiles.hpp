// What the fused kernels of gradients add to a plan: shaders/gradient/tiles.glsl on lanes,
// shaders/gradient/matrices.glsl on matrix units.
#pragma once

#include "core/tiles/passes.hpp"

namespace vkattn {

struct GradientPass : TiledPass {
    MatrixShape matrix; // where tile.source is sourceMatrices; its rows are the items that the pass owns
    uint32_t valueDimsPerLane, valueRun;
    bool head, value; // dQ or dK, and dV: the pass has them to compute
    // Of a problem with slices the pass is cut by what it owns: workgroups in each dispatch but the last.
    uint32_t groupsAtOnce;
};

struct GradientTiles {
    GradientPass rows, keys;
    uint32_t shuffleLanes, pairTerms;
};

} // namespace vkattn
