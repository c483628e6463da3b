// The small element types of caches <-> binary32: 8-bit floats (OCP 8-bit Floating Point, 2023) and ggml's blocks of 32
// elements along the dims. All of it is exact but the rounding of what is stored, which is to nearest even.
// shaders/lib/small_types.glsl reads the same types on the device.
#pragma once

#include "util/half.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vkattn {

// E4M3 (the variant without infinities, "e4m3fn"): 4 bits of exponent, 3 of mantissa, largest 448.
[[nodiscard]] constexpr float e4m3ToFloat(uint8_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24, exponent = code >> 3 & 0xfu, mantissa = code & 7u;
    if ((code & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
        return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
}
// E5M2: the upper half of a binary16, largest finite 57344.
[[nodiscard]] constexpr float e5m2ToFloat(uint8_t code) {
    return halfToFloat(static_cast<uint16_t>(code << 8));
}

// Rounds to nearest even. What is too large, but finite, becomes the largest finite number, as vLLM and the saturating mode of OCP
// have it; a NaN stays one, and infinity becomes what the type has for it.
[[nodiscard]] constexpr uint8_t floatToSmallFloat(float value, uint32_t mantissaBits, int32_t bias, uint8_t largest, uint8_t infinity,
                                                  uint8_t nan) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
    if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | nan);
    if (magnitude == 0x7f800000u) return static_cast<uint8_t>(sign | infinity);
    const int32_t exponent = static_cast<int32_t>(magnitude >> 23) - 127, least = 1 - bias;
    // The bits of the mantissa that are lost; of a denormal more.
    const uint32_t shift = 23 - mantissaBits + static_cast<uint32_t>(std::max(least - exponent, 0));
    if (shift > 25 || magnitude < 0x00800000u) return sign;
    const uint32_t kept = (magnitude & 0x7fffffu) | 0x800000u, remainder = kept & ((1u << shift) - 1), halfway = 1u << (shift - 1);
    uint32_t code = kept >> shift;
    if (remainder > halfway || (remainder == halfway && (code & 1))) ++code; // may carry into the exponent
    if (exponent > least) code += static_cast<uint32_t>(exponent - least) << mantissaBits;
    return static_cast<uint8_t>(sign | std::min<uint32_t>(code, largest));
}
[[nodiscard]] constexpr uint8_t floatToE4m3(float value) {
    return floatToSmallFloat(value, 3, 7, 0x7e, 0x7f, 0x7f);
}
[[nodiscard]] constexpr uint8_t floatToE5m2(float value) {
    return floatToSmallFloat(value, 2, 15, 0x7b, 0x7c, 0x7f);
}

// ggml's blocks: the scale as a binary16, then the codes. A block of which an element is not finite is NaN as a whole.
constexpr uint32_t blockElements = 32;
constexpr uint32_t q8BlockBytes = 34; // 32 signed bytes
constexpr uint32_t q4BlockBytes = 18; // 16 bytes: element n below 16 in the lower half of byte n, element n + 16 in the upper

[[nodiscard]] inline float blockScale(const unsigned char *block) {
    uint16_t half;
    std::memcpy(&half, block, 2);
    return halfToFloat(half);
}
[[nodiscard]] inline float q8Element(const unsigned char *block, uint32_t n) {
    return blockScale(block) * static_cast<float>(static_cast<int8_t>(block[2 + n]));
}
[[nodiscard]] inline float q4Element(const unsigned char *block, uint32_t n) {
    const int code = block[2 + n % 16] >> (n < 16 ? 0 : 4) & 15;
    return blockScale(block) * static_cast<float>(code - 8);
}

// Rows of bytes: an f32 scale, then the codes.
constexpr uint32_t int8ScaleBytes = 4;
[[nodiscard]] inline float int8Scale(const unsigned char *row) {
    float scale;
    std::memcpy(&scale, row, 4);
    return scale;
}
[[nodiscard]] inline float int8Element(const unsigned char *row, uint32_t n) {
    return int8Scale(row) * static_cast<float>(static_cast<int8_t>(row[int8ScaleBytes + n]));
}

// Returns the scale by which the codes of `count` elements are found, before it is rounded: 0 where all are 0, NaN where one is not finite.
[[nodiscard]] inline float scaleOf(const float *from, uint32_t count, float divisor, bool ofSignedExtreme) {
    float extreme = 0;
    bool finite = true;
    for (uint32_t n = 0; n < count; ++n) {
        finite = finite && std::isfinite(from[n]);
        if (std::abs(from[n]) > std::abs(extreme)) extreme = from[n];
    }
    return finite ? (ofSignedExtreme ? extreme : std::abs(extreme)) / divisor : std::numeric_limits<float>::quiet_NaN();
}
inline void storeBlockScale(float scale, unsigned char *block) {
    const uint16_t half = floatToHalf(scale);
    std::memcpy(block, &half, 2);
}
[[nodiscard]] inline int blockCode(float value, float scale, int least, int most) {
    if (scale == 0 || std::isnan(scale)) return 0;
    return static_cast<int>(std::clamp(std::nearbyint(value / scale), static_cast<float>(least), static_cast<float>(most)));
}
// Of a block that has `count` elements, the others are 0.
inline void storeQ8Block(const float *from, uint32_t count, unsigned char *block) {
    const float scale = scaleOf(from, count, 127, false);
    storeBlockScale(scale, block);
    for (uint32_t n = 0; n < blockElements; ++n)
        block[2 + n] = static_cast<unsigned char>(n < count ? blockCode(from[n], scale, -127, 127) : 0);
}
inline void storeQ4Block(const float *from, uint32_t count, unsigned char *block) {
    const float scale = scaleOf(from, count, -8, true);
    storeBlockScale(scale, block);
    for (uint32_t n = 0; n < blockElements / 2; ++n) {
        const auto code = [&](uint32_t element) {
            return static_cast<uint32_t>((element < count ? blockCode(from[element], scale, -8, 7) : 0) + 8);
        };
        block[2 + n] = static_cast<unsigned char>(code(n) | code(n + 16) << 4);
    }
}
inline void storeInt8Row(const float *from, uint32_t count, unsigned char *row) {
    const float scale = scaleOf(from, count, 127, false);
    std::memcpy(row, &scale, 4);
    for (uint32_t n = 0; n < count; ++n) row[int8ScaleBytes + n] = static_cast<unsigned char>(blockCode(from[n], scale, -127, 127));
}

} // namespace vkattn
