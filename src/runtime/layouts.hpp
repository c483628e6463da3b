// What the runtime asks of descriptions and of their layouts.
#pragma once

#include "vkattn/gradient.h"
#include "vkattn/statistics.h"
#include "vkattn/vkattn.hpp"

namespace vkattn {

// Returns the attention that an operation computes, is the backward pass of, or has the statistics of;
// NULL: none of these.
[[nodiscard]] constexpr const vkattn_problem *problemOf(const vkattn_operation &operation) {
    switch (operation.kind) {
    case VKATTN_ATTENTION:
        return operation.of.attention;
    case VKATTN_ATTENTION_GRADIENT:
        return operation.of.attentionGradient->forward;
    case VKATTN_ATTENTION_STATISTICS:
        return operation.of.attentionStatistics->attention;
    default:
        return nullptr;
    }
}

// Returns the bytes of an element; of small types as asStored has them.
[[nodiscard]] constexpr uint64_t elementSize(vkattn_dtype dtype) {
    return isSmallType(dtype) ? 1 : bytesOfBlock(dtype);
}

// Returns a tensor of a small type as its bytes, row by row, and any other one as it is.
[[nodiscard]] constexpr vkattn_layout asStored(vkattn_layout layout) {
    if (!isSmallType(layout.dtype)) return layout;
    const int64_t block = elementsOfBlock(layout.dtype), bytes = bytesOfBlock(layout.dtype);
    if (hasScales(layout.dtype)) {
        layout.strideElems[3] = 1;
        layout.extent[3] = static_cast<uint32_t>(rowBytes(layout.dtype, layout.extent[3]));
    }
    for (int d = 0; d < 3; ++d) layout.strideElems[d] = layout.strideElems[d] / block * bytes;
    layout.offsetElems = layout.offsetElems / static_cast<uint64_t>(block) * static_cast<uint64_t>(bytes);
    return layout;
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

// The elements from the first to one past the last, counted from the first byte of the memory.
struct Elements {
    uint64_t begin = 0, end = 0;
};

// Returns false where the layout reaches before the memory, or is larger than any tensor.
[[nodiscard]] constexpr bool findElements(const vkattn_layout &layout, Elements &out) {
    constexpr uint64_t mostElements = 1ull << 60; // vkattn/problem.h
    if (layout.offsetElems > mostElements) return false;
    int64_t first = static_cast<int64_t>(layout.offsetElems), last = first;
    for (int d = 0; d < 4; ++d) {
        if (layout.extent[d] == 0) return out = {}, true;
        const int64_t steps = int64_t{layout.extent[d]} - 1, stride = layout.strideElems[d];
        const int64_t most = static_cast<int64_t>(mostElements);
        if (steps == 0) continue;
        if (stride > most / steps || stride < -most / steps) return false;
        (stride < 0 ? first : last) += steps * stride;
        if (last > most || first < -most) return false;
    }
    if (first < 0) return false;
    out = {static_cast<uint64_t>(first), static_cast<uint64_t>(last) + 1};
    return true;
}

// Calls visit(element of the memory, element of a host array, in row-major order).
template <class Visit> void eachElement(const vkattn_layout &l, Visit visit) {
    uint64_t n = 0;
    const auto at = [&](int d, uint32_t i) { return static_cast<uint64_t>(l.strideElems[d]) * i; };
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) visit(l.offsetElems + at(0, b) + at(1, h) + at(2, t) + at(3, d), n++);
}

} // namespace vkattn
