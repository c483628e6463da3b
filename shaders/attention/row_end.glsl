// The end of a row, for the flash kernels and combine.comp: what its sums are divided by, and its
// log-sum-exp. A sink takes part in the softmax and has no value. Rows are judged by integer tests;
// no rule rests on how a driver compares NaN.
#include "lib/math.glsl"

struct RowEnd {
    float factor, divisor; // output = sum * factor / divisor
    uint lseBits;
    // Nothing visible: 0; a visible NaN or +infinity, or nothing but -infinity: NaN.
    bool empty, bad;
};

RowEnd finishRow(float maximum, float weightSum, uint worst, uint sinkBits) {
    RowEnd end;
    end.empty = weightSum == 0.0 && worst == 0u;
    const bool hasSink = sinkBits != minusInfinityBits;
    end.bad = worst >= 0x7f800000u || (weightSum == 0.0 && worst != 0u && !hasSink) || (hasSink && !isFiniteBits(sinkBits));
    const float top = hasSink ? max(maximum, uintBitsToFloat(sinkBits)) : maximum;
    end.factor = expDifference(maximum, top);
    end.divisor = weightSum * end.factor + (hasSink ? expDifference(uintBitsToFloat(sinkBits), top) : 0.0);
    end.lseBits = end.empty ? sinkBits : end.bad ? canonicalNanBits : floatBitsToUint(top + log(end.divisor));
    return end;
}
uint outputBits(RowEnd end, float sum) {
    return end.empty ? 0u : end.bad ? canonicalNanBits : floatBitsToUint(sum * end.factor / end.divisor);
}
