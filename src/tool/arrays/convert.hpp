// Arrays of floats from one type to another, by the library.
#pragma once

#include "program/failure.hpp"

#include <vkattn/cpu.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace vkattn::tool {

// Of an element, or of a word of 32 bits.
[[nodiscard]] constexpr uint32_t itemBytes(vkattn_dtype dtype) {
    return dtype == VKATTN_BOOL8 ? 1 : dtype == VKATTN_F32 || dtype == VKATTN_BITS32 ? 4 : 2;
}

// f32 to f16 or bf16, or back.
inline void convert(vkattn_dtype fromType, const void *from, vkattn_dtype toType, void *to, uint64_t count) {
    vkattn_diagnostic why{};
    if (vkattnConvert(fromType, from, toType, to, count, &why) != VKATTN_OK) throw program::Failure(why.message);
}

// The library converts from f32, so a double that becomes a 16-bit float is rounded twice. Rounding
// to the nearest twice is not rounding to the nearest: what lies just above the middle of two
// halves becomes that middle, and then the even half. Rounding to odd leaves the last bit set where
// anything was cut off, so that a middle is told from its neighbours, and a number past the largest
// half from infinity.
[[nodiscard]] inline float roundedToOdd(double value) {
    const auto nearest = static_cast<float>(value);
    if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
    auto bits = std::bit_cast<uint32_t>(nearest);
    // Towards zero, from infinity too.
    if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) bits--;
    return std::bit_cast<float>(bits | 1);
}

} // namespace vkattn::tool
