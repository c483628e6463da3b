#ifndef VKATTN_BFLOAT16_GLSL_
#define VKATTN_BFLOAT16_GLSL_
// bfloat16 <-> binary32 in integer arithmetic: the upper half of the word, rounded to nearest even.
// Compared over all 65,536 values in tests/device/half_test.cpp. The twin of bfloat16ToFloat
// and floatToBfloat16 in src/util/half.hpp.
float bfloat16ToFloat(uint bits) { return uintBitsToFloat(bits << 16); }

uint floatToBfloat16(float value) {
    const uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return ((bits >> 16) & 0x8000u) | 0x7fc0u;
    // Carries into the exponent, up to infinity, as it should.
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
#endif
