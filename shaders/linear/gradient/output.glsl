// How an element of a gradient is stored: divided by the loss scale, and what is not finite is told.
layout(set = 0, binding = slotLinearGradient, std430) buffer Gradient { uint gradient[]; };
layout(set = 0, binding = slotLinearNonfinite, std430) buffer Nonfinite { uint nonfinite[]; };

void storeGradient(uint at, float value) {
    value = uintBitsToFloat(scoreBits(value / lossScale));
    STORE_ELEMENT(gradient, gradientType, at, value)
    if ((form & formLinearNonfinite) == 0u) return;
    const uint exponent = gradientType == elementF32 ? 0x7f800000u : gradientType == elementF16 ? 0x7c00u : 0x7f80u;
    const uint bits = gradientType == elementF32 ? floatBitsToUint(value) : floatToHalfWidth(gradientType, value);
    if ((bits & exponent) == exponent) atomicOr(nonfinite[nonfiniteBase], 1u);
}
