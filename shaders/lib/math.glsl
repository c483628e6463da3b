#ifndef VKATTN_MATH_GLSL_
#define VKATTN_MATH_GLSL_
// -FLT_MAX: above no finite score, so that the maximum of finite scores is exact
const float lowest = -3.40282346638528859812e38;

// exp(a - b) where a <= b, or either is no number. exp(-200) is 0 in fp32: the bound only keeps the
// difference finite.
float expDifference(float a, float b) { return exp(max(a - b, -200.0)); }

// tanh of our own: SwiftShader's is NaN from |x| = 89 on. 1 - 2 / (1 + exp(2|x|)) loses relative
// accuracy near 0, where an odd polynomial (Taylor to x^11, error below 2^-24 relative for |x| <=
// 0.5) takes over. NaN stays NaN by an integer test.
float stableTanh(float x) {
    const uint bits = floatBitsToUint(x);
    if (isNanBits(bits)) return x;
    const float magnitude = min(abs(x), 20.0); // tanh(20) rounds to 1
    const float x2 = magnitude * magnitude;
    const float small =
        magnitude * (1.0 + x2 * (-1.0 / 3.0 + x2 * (2.0 / 15.0 + x2 * (-17.0 / 315.0 + x2 * (62.0 / 2835.0 - x2 * (1382.0 / 155925.0))))));
    const float large = 1.0 - 2.0 / (1.0 + exp(2.0 * magnitude));
    return uintBitsToFloat(floatBitsToUint(magnitude < 0.5 ? small : large) | (bits & 0x80000000u));
}
#endif
