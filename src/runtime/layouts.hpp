// What the runtime asks of layouts.
#pragma once

#include "vkattn/problem.h"

namespace vkattn {

[[nodiscard]] constexpr uint64_t elementSize(vkattn_dtype dtype) {
    return dtype == VKATTN_BOOL8 ? 1 : dtype == VKATTN_F16 || dtype == VKATTN_BF16 ? 2 : 4;
}

// Whether the elements lie in the memory as in a host array: packed, in row-major order.
[[nodiscard]] constexpr bool isDense(const vkattn_layout &layout) {
    int64_t expected = 1;
    for (int d = 3; d >= 0; --d) {
        if (layout.extent[d] > 1 && layout.strideElems[d] != expected) return false;
        expected *= layout.extent[d];
    }
    return true;
}

} // namespace vkattn
