// vkattn/traits.hpp: what types of elements and rules of linear attention have in common. Header only; C++17.
#pragma once

#include "vkattn/linear.h"
#include "vkattn/problem.h"

#include <cstdint>

namespace vkattn {

// Returns whether an element has less than 16 bits. Of K and V alone, and of caches.
[[nodiscard]] constexpr bool isSmallType(vkattn_dtype dtype) {
    return dtype >= VKATTN_FP8_E4M3 && dtype <= VKATTN_INT8;
}
// 8-bit floats, which have no scale. Each of their numbers is one of f16 and of bf16 too.
[[nodiscard]] constexpr bool isFp8(vkattn_dtype dtype) {
    return dtype == VKATTN_FP8_E4M3 || dtype == VKATTN_FP8_E5M2;
}
// ggml's types: elements come in blocks along the dims, each block with a scale.
[[nodiscard]] constexpr bool isBlockType(vkattn_dtype dtype) {
    return dtype == VKATTN_Q8_0 || dtype == VKATTN_Q4_0;
}
// Blocks, or rows, with a scale beside their elements.
[[nodiscard]] constexpr bool hasScales(vkattn_dtype dtype) {
    return isBlockType(dtype) || dtype == VKATTN_INT8;
}
// Returns the elements of what is stored as a whole: of a block, or 1.
[[nodiscard]] constexpr uint32_t elementsOfBlock(vkattn_dtype dtype) {
    return isBlockType(dtype) ? 32 : 1;
}
// Returns the bytes of that.
[[nodiscard]] constexpr uint32_t bytesOfBlock(vkattn_dtype dtype) {
    switch (dtype) {
    case VKATTN_Q8_0:
        return 34;
    case VKATTN_Q4_0:
        return 18;
    case VKATTN_F32:
    case VKATTN_BITS32:
        return 4;
    case VKATTN_F16:
    case VKATTN_BF16:
        return 2;
    default:
        return 1;
    }
}

// Returns whether a rule of linear attention has a decay.
[[nodiscard]] constexpr bool isGated(vkattn_linear_rule rule) {
    return rule == VKATTN_LINEAR_GATED || rule == VKATTN_LINEAR_GATED_DELTA;
}
// Returns whether a rule of linear attention takes back what a key holds before the key is written, by a write strength.
[[nodiscard]] constexpr bool isDelta(vkattn_linear_rule rule) {
    return rule == VKATTN_LINEAR_DELTA || rule == VKATTN_LINEAR_GATED_DELTA;
}

} // namespace vkattn
