// The 16-bit floats, for --round-to and what .npy has no type for. The tool sees the library only through its public headers, which have no
// conversions; this one is from double, so that float64 arrays are rounded once.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace vkattn::tool {

struct NarrowFloat {
    int fractionBits, exponentBits;
    [[nodiscard]] constexpr int bias() const { return (1 << (exponentBits - 1)) - 1; }
    [[nodiscard]] constexpr uint16_t infinity() const { return static_cast<uint16_t>(((1 << exponentBits) - 1) << fractionBits); }
};
inline constexpr NarrowFloat binary16{10, 5}, bfloat16{7, 8};

// Round to nearest even; what is too large becomes infinite, NaN stays NaN, denormals are kept.
[[nodiscard]] inline uint16_t narrow(double value, NarrowFloat format) {
    constexpr uint64_t implicitBit = 1ull << 52;
    const auto bits = std::bit_cast<uint64_t>(value);
    const auto sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
    if (std::isnan(value)) return sign | format.infinity() | static_cast<uint16_t>(1 << (format.fractionBits - 1));
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    // Denormals of the narrow format share the exponent of its smallest normal number. Those of double are far below them.
    const int kept = std::max(exponent, 1 - format.bias());
    const int shift = 52 - format.fractionBits + (kept - exponent);
    uint64_t units = 0;
    if (shift < 63) {
        const uint64_t significand = (bits & (implicitBit - 1)) | implicitBit;
        const uint64_t remainder = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        units = significand >> shift;
        if (remainder > half || (remainder == half && (units & 1) != 0)) units++;
    }
    // A normal number's implicit bit carries into the exponent, and so does rounding up to the next power of two.
    const uint64_t magnitude = (static_cast<uint64_t>(kept + format.bias() - 1) << format.fractionBits) + units;
    return sign | static_cast<uint16_t>(std::min<uint64_t>(magnitude, format.infinity()));
}

[[nodiscard]] inline float widen(uint16_t bits, NarrowFloat format) {
    const int exponent = bits >> format.fractionBits & ((1 << format.exponentBits) - 1);
    const int fraction = bits & ((1 << format.fractionBits) - 1), one = 1 << format.fractionBits;
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    if (exponent == (1 << format.exponentBits) - 1) return fraction != 0 ? std::nanf("") : sign * INFINITY;
    const int scale = std::max(exponent, 1) - format.bias() - format.fractionBits;
    return sign * std::ldexp(static_cast<float>(exponent == 0 ? fraction : one + fraction), scale);
}

} // namespace vkattn::tool
