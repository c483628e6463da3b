#version 450
// Merges the partial softmaxes of splits and key lanes (Dao et al. 2023, flash-decoding): each is
// scaled from its own maximum to the common one. Parts are added in their order, so that the result
// does not depend on which ran first; a part that saw no key adds an exact 0. The sink takes part
// once, here. One workgroup per row.
#define VKATTN_STAGE_COMBINE
#include "lib/platform.glsl"

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/row_end.glsl"
#include "lib/element.glsl"

void main() {
    const uint i = gl_WorkGroupID.x, head = gl_WorkGroupID.z % heads;
    beginSequence(gl_WorkGroupID.z / heads);
    if (i >= rowsOf(seq)) return;
    const uint row = ((batch * (heads / packed) + head / packed) * queries + i) * packed + head % packed;
    const uint pitch = valueDim + partialWords, first = row * parts * pitch;

    float maximum = lowest;
    uint worst = 0u;
    for (uint n = 0u; n < parts; ++n) {
        maximum = max(maximum, uintBitsToFloat(partials[first + n * pitch]));
        worst = max(worst, partials[first + n * pitch + 2u]);
    }
    float weightSum = 0.0;
    for (uint n = 0u; n < parts; ++n) {
        const float factor = expDifference(uintBitsToFloat(partials[first + n * pitch]), maximum);
        weightSum = fma(uintBitsToFloat(partials[first + n * pitch + 1u]), factor, weightSum);
    }
    const uint sinkBits = (flags & flagSinks) != 0u ? headFacts[headFirst + head].sink : minusInfinityBits;
    const RowEnd end = finishRow(maximum, weightSum, worst, sinkBits, keptFactor);
    const uint token = seq.queryStart + i;
    if (gl_LocalInvocationID.x == 0u && (flags & flagLse) != 0u) {
        const bool statistics = (flags & flagRowStatistics) != 0u;
        const uint at = lseBase + batch * lseBatch + head * lseHead + token * lseToken;
        lse[at] = statistics ? end.maximumBits : end.lseBits;
        if (statistics) lse[at + lseEntry] = end.sumBits;
    }

    // Pairs of dims, so that two 16-bit elements fill a word.
    const uint outAt = oBase + batch * oBatch + head * oHead + token * oToken;
    for (uint dim = 2u * gl_LocalInvocationID.x; dim < valueDim; dim += 2u * gl_WorkGroupSize.x) {
        const uint second = min(dim + 1u, valueDim - 1u);
        float sum = 0.0, sum2 = 0.0;
        for (uint n = 0u; n < parts; ++n) {
            const uint at = first + n * pitch;
            const float factor = expDifference(uintBitsToFloat(partials[at]), maximum);
            sum = fma(uintBitsToFloat(partials[at + partialWords + dim]), factor, sum);
            sum2 = fma(uintBitsToFloat(partials[at + partialWords + second]), factor, sum2);
        }
        const float value = uintBitsToFloat(outputBits(end, sum)), value2 = uintBitsToFloat(outputBits(end, sum2));
        if (dim + 1u < valueDim) {
            STORE_ELEMENT_PAIR(outWords, outType, outAt + dim * oDim, oDim, value, value2)
        } else {
            STORE_ELEMENT(outWords, outType, outAt + dim * oDim, value)
        }
    }
}
