// IEEE binary16 and bfloat16 <-> binary32 in integer arithmetic: round to nearest even, denormals,
// infinities and NaN kept. shaders/lib/half.glsl does the same on the device;
// tests/device/half_test.cpp compares them over all 65536 halves.
#pragma once

#include <bit>
#include <cstdint>

namespace vkattn {

[[nodiscard]] constexpr float halfToFloat(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

[[nodiscard]] constexpr uint16_t floatToHalf(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    // 65520 and above round to infinity
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    // Below half the smallest denormal.
    if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);
    uint32_t kept, shift;
    if (magnitude < 0x38800000u) { // denormal half
        shift = 126 - (magnitude >> 23);
        kept = (magnitude & 0x7fffffu) | 0x800000u;
    } else {
        shift = 13;
        kept = magnitude - 0x38000000u;
    }
    const uint32_t remainder = kept & ((1u << shift) - 1), halfway = 1u << (shift - 1);
    uint32_t rounded = kept >> shift;
    if (remainder > halfway || (remainder == halfway && (rounded & 1))) ++rounded;
    return static_cast<uint16_t>(sign | rounded);
}

// bf16 is the upper half of a float.
[[nodiscard]] constexpr float bfloat16ToFloat(uint16_t bits16) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits16) << 16);
}

[[nodiscard]] constexpr uint16_t floatToBfloat16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    // The upper half of a NaN may be 0.
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16 & 0x8000u) | 0x7fc0u);
    // The sum carries into the exponent, and there into infinity.
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

} // namespace vkattn
