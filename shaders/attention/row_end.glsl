// The end of a row, for the flash kernels and combine.comp: what its sums are divided by, and its
// log-sum-exp or statistics. A sink takes part in the softmax and has no value. Rows are judged by
// integer tests; no rule rests on how a driver compares NaN.
#include "lib/math.glsl"

struct RowEnd {
    float factor, divisor; // output = sum * factor / divisor
    uint lseBits, maximumBits, sumBits;
    // Nothing visible: 0; a visible NaN or +infinity, or nothing but -infinity: NaN.
    bool empty, bad;
};

// `keptFactor`: of dropout; 1 without.
RowEnd finishRow(float maximum, float weightSum, uint worst, uint sinkBits, float keptFactor) {
    RowEnd end;
    end.empty = weightSum == 0.0 && worst == 0u;
    const bool hasSink = sinkBits != minusInfinityBits;
    end.bad = worst >= 0x7f800000u || (weightSum == 0.0 && worst != 0u && !hasSink) || (hasSink && !isFiniteBits(sinkBits));
    const float top = hasSink ? max(maximum, uintBitsToFloat(sinkBits)) : maximum;
    end.factor = expDifference(maximum, top);
    end.divisor = weightSum * end.factor + (hasSink ? expDifference(uintBitsToFloat(sinkBits), top) : 0.0);
    if (sumless) end.divisor = 1.0; // weightSum counts keys
    end.factor *= keptFactor;
    end.lseBits = end.empty ? sinkBits : end.bad ? canonicalNanBits : floatBitsToUint(top + log(end.divisor));
    end.maximumBits = end.empty ? sinkBits : end.bad ? canonicalNanBits : floatBitsToUint(top);
    end.sumBits = end.empty ? floatBitsToUint(hasSink ? 1.0 : 0.0) : end.bad ? canonicalNanBits : floatBitsToUint(end.divisor);
    return end;
}
uint outputBits(RowEnd end, float sum) {
    return end.empty ? 0u : end.bad ? canonicalNanBits : floatBitsToUint(sum * end.factor / end.divisor);
}
