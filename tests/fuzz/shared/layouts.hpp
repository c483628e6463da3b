// Bytes as numbers, types and layouts, for targets whose input is a description: likely values, and
// whatever the bytes are.
#pragma once

#include "fuzz.hpp"
#include "vkattn/problem.h"

#include <algorithm>

namespace vkattn::test {

inline uint32_t number(Bytes &bytes) {
    static constexpr uint32_t likely[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130, 0, 1u << 20, 1u << 30, 0xffffffff};
    const uint32_t kind = bytes.raw<uint8_t>();
    if (kind < 200) return likely[kind % 16];
    return kind < 220 ? likely[kind % 20] : kind < 240 ? bytes.raw<uint16_t>() : bytes.raw<uint32_t>();
}

inline vkattn_dtype dtype(Bytes &bytes) {
    const uint32_t kind = bytes.raw<uint8_t>();
    return static_cast<vkattn_dtype>(kind < 250 ? kind % 3 : kind);
}

inline vkattn_dtype wordType(Bytes &bytes) {
    const uint32_t kind = bytes.raw<uint8_t>();
    return kind < 250 ? VKATTN_BITS32 : static_cast<vkattn_dtype>(kind);
}

inline vkattn_layout layout(Bytes &bytes, const uint32_t (&extents)[4], vkattn_dtype type) {
    vkattn_layout l{};
    l.dtype = type;
    const uint32_t kind = bytes.raw<uint8_t>();
    for (int d = 0; d < 4; ++d) l.extent[d] = kind >= 250 && bytes.flag() ? number(bytes) : extents[d];
    const int orders[4][4] = {{3, 2, 1, 0}, {3, 1, 2, 0}, {2, 3, 1, 0}, {0, 1, 2, 3}};
    int64_t stride = 1;
    for (const int d : orders[kind & 3]) {
        l.strideElems[d] = stride;
        if (__builtin_mul_overflow(stride, int64_t{std::max(l.extent[d], 1u)}, &stride)) stride = bytes.raw<int64_t>();
        if (kind & 4) stride = static_cast<int64_t>(static_cast<uint64_t>(stride) + bytes.below(8));
    }
    if ((kind & 0x18) == 8) l.strideElems[bytes.below(4)] = bytes.flag() ? 0 : bytes.raw<int64_t>();
    if ((kind & 0x18) == 16) {
        const uint32_t d = bytes.below(4);
        l.offsetElems = static_cast<uint64_t>(l.strideElems[d]) * (std::max(l.extent[d], 1u) - 1ull);
        l.strideElems[d] = static_cast<int64_t>(0 - static_cast<uint64_t>(l.strideElems[d]));
    }
    if (kind & 32) l.offsetElems += bytes.raw<uint8_t>();
    return l;
}

} // namespace vkattn::test
