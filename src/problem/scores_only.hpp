// The part of an attention problem that decides scores, of operations that compute something else of them.
#pragma once

#include "vkattn/problem.h"

namespace vkattn {

// One dim of each token, tightly packed: the stand-in of what statistics do not touch.
[[nodiscard]] constexpr vkattn_layout oneDim(const uint32_t (&extent)[4], uint32_t heads) {
    const uint64_t tokens = extent[2];
    const auto ofBatch = static_cast<int64_t>(tokens * heads); // extents are not checked yet
    return {VKATTN_F32, {extent[0], heads, extent[2], 1}, {ofBatch, static_cast<int64_t>(tokens), 1, 1}, 0};
}

// v and out are there and have one dim, and there is no other output, no sink and no dropout.
[[nodiscard]] inline vkattn_problem scoresOnly(const vkattn_problem &given) {
    vkattn_problem p = given;
    p.flags &= ~uint32_t{VKATTN_VALUES_IN_KEYS | VKATTN_ROW_STATISTICS | VKATTN_WEIGHTS_DROPPED};
    p.v = oneDim(given.k.extent, given.k.extent[1]);
    if (given.k1.extent[0]) p.v1 = oneDim(given.k1.extent, given.k1.extent[1]);
    if (given.k2.extent[0]) p.v2 = oneDim(given.k2.extent, given.k2.extent[1]);
    if (given.k3.extent[0]) p.v3 = oneDim(given.k3.extent, given.k3.extent[1]);
    p.out = oneDim(given.q.extent, given.q.extent[1]);
    p.lse = p.weights = p.scores = p.priorOut = p.priorLse = {};
    p.scoresStage = VKATTN_SCORES_RAW;
    p.presentRoles &= ~VKATTN_PRESENT(VKATTN_SINKS);
    p.kernel = VKATTN_KERNEL_AUTO;
    p.dropout = 0;
    p.dropoutSeed = 0;
    p.dropoutOffset = 0;
    return p;
}

} // namespace vkattn
