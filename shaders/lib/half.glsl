#ifndef VKATTN_HALF_GLSL_
#define VKATTN_HALF_GLSL_
// binary16 <-> binary32 in integer arithmetic: unpackHalf2x16 may flush denormals
// (attention/key_value.glsl takes it where it does not), and packHalf2x16 of infinity or of values
// past 65504 overwrites the neighbouring half or gives a NaN on SwiftShader. The twin of
// src/util/half.hpp; compared over all halves in tests/device/half_test.cpp.
float halfToFloat(uint half_) {
    const uint rest = (half_ & 0x7fffu) << 13;
    // The exponent rebiased: right for normal numbers. A denormal, whose exponent is 0, came out as
    // 2^-15 (1 + m) in place of 2^-14 m.
    float magnitude = uintBitsToFloat(rest + 0x38000000u);
    magnitude += min(magnitude - uintBitsToFloat(0x38800000u), 0.0); // 2^-14
    const uint infinite = int(rest) > 0x0f7fffff ? 0x7f800000u : 0u; // infinity or NaN
    return uintBitsToFloat(floatBitsToUint(magnitude) | infinite | (half_ & 0x8000u) << 16);
}

uint floatToHalf(float value) {
    const uint bits = floatBitsToUint(value);
    const uint sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; // 65520 and above round to infinity
    if (magnitude < 0x33000000u) return sign;            // below half the smallest denormal
    const bool denormal = magnitude < 0x38800000u;
    const uint shift = denormal ? 126u - (magnitude >> 23) : 13u;
    const uint kept = denormal ? (magnitude & 0x7fffffu) | 0x800000u : magnitude - 0x38000000u;
    const uint remainder = kept & ((1u << shift) - 1u), halfway = 1u << (shift - 1u);
    uint rounded = kept >> shift;
    if (remainder > halfway || (remainder == halfway && (rounded & 1u) != 0u)) ++rounded;
    return sign | rounded;
}
#endif
