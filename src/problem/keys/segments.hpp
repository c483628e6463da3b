// K and V in segments, one after the other (vkattn_problem::k1): which of them holds a key.
#pragma once

#include "vkattn/problem.h"

#include <cstdint>

namespace vkattn {

struct Problem;

constexpr uint32_t mostSegments = 4;

// Returns the role of a segment of `role`, VKATTN_K or VKATTN_V.
[[nodiscard]] constexpr vkattn_role roleOfSegment(vkattn_role role, uint32_t segment) {
    return segment == 0 ? role : static_cast<vkattn_role>(VKATTN_K_1 + 2 * (segment - 1) + (role == VKATTN_V ? 1 : 0));
}

// Where segments lie among the keys: segment n has the keys [first[n], first[n + 1]).
struct Segments {
    uint32_t count = 1;
    uint32_t first[mostSegments + 1] = {};

    [[nodiscard]] constexpr uint32_t of(uint32_t key) const {
        uint32_t n = 0;
        while (n + 1 < count && key >= first[n + 1]) ++n;
        return n;
    }
    [[nodiscard]] constexpr uint32_t keys(uint32_t segment) const { return first[segment + 1] - first[segment]; }
};

// Checks the segments of a problem whose tensors and extents are known, and sets out.segments and out.keyTokens.
[[nodiscard]] vkattn_result makeSegments(const vkattn_problem &description, Problem &out, vkattn_diagnostic *why);

} // namespace vkattn
