#version 450
// Between the scans and what is stored. Of features: denominators and what they add to the gradients of rows of out,
// and the gradients of features times the slopes of the map, in place of the first of their parts. Of a decay or a
// write strength that all rows, or columns, share: sums over those.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

const uint featuresElu1 = 0u, featuresRelu = 1u;
const uint features = form >> formLinearFeatures & 3u;

// The gradient of a feature times its slope: of exponents the feature. A feature of RELU that is off takes no part,
// whatever its gradient is.
float throughSlope(float feature, float gradient) {
    if (features == featuresElu1) return gradient * (feature > 1.0 ? 1.0 : feature);
    if (features == featuresRelu) return feature > epsilon ? gradient : 0.0;
    return gradient * feature;
}
float sumOfBlocks(uint at, uint words) {
    float sum = workspaceFloat(at);
    [[dont_unroll]] for (uint n = 1u; n < columnBlocks; ++n) sum += workspaceFloat(at + n * words);
    return sum;
}

// Row `own` of the chunk, [group][slot].
void finishRow(ChunkPlace c, uint own) {
    const uint queries = arrayAt(c, linearGradientRows) + own * rowPitch, dRows = arrayAt(c, linearGradientDRows) + own * rowPitch,
               z = arrayAt(c, linearGradientNormalizers) + own % chunkTokens * rowPitch, words = groupHeads() * chunkTokens * rowPitch;
    float denominator = 0.0, product = 0.0;
    [[dont_unroll]] for (uint r = 0u; r < rows; ++r) {
        const float query = workspaceFloat(queries + r), read = sumOfBlocks(dRows + r, words);
        store(dRows + r, read);
        denominator = fma(query, workspaceFloat(z + r), denominator);
        product = fma(query, read, product);
    }
    // Without a denominator the row is 0. Queries that are not there are 0 beside an infinite z: their denominator is NaN.
    const uint slot = own % chunkTokens;
    const bool seen = denominator != 0.0 && hasRow(c, slot) && sees(rowOf(c, slot));
    const float inverse = seen ? 1.0 / denominator : 0.0, ofDenominator = seen ? -product * inverse * inverse : 0.0;
    store(arrayAt(c, linearGradientInverses) + own, inverse);
    store(arrayAt(c, linearGradientOfDenominators) + own, ofDenominator);
    [[dont_unroll]] for (uint r = 0u; r < rows; ++r) {
        const float gradient = fma(workspaceFloat(dRows + r), inverse, workspaceFloat(z + r) * ofDenominator);
        store(dRows + r, seen ? throughSlope(workspaceFloat(queries + r), gradient) : 0.0);
    }
}

void main() {
    beginUnit();
    const uint perSlot = what == linearFinishKeys ? rowPitch : what == linearFinishRows ? groupHeads() : 1u, perChunk = perSlot * chunkTokens;
    const uint index = gl_GlobalInvocationID.x;
    if (index >= chunks * perChunk) return;
    const ChunkPlace c = chunkOf(index / perChunk);
    const uint own = index % perChunk;
    if (what == linearFinishRows) {
        finishRow(c, own);
        return;
    }
    if (what == linearFinishKeys) {
        const uint at = arrayAt(c, linearGradientDKeys) + own;
        if (own % rowPitch < rows)
            store(at, throughSlope(workspaceFloat(arrayAt(c, linearGradientKeys) + own), sumOfBlocks(at, chunkTokens * rowPitch)));
        return;
    }
    const bool ofDecays = what == linearFinishDecays;
    const uint at = ofDecays ? arrayAt(c, linearGradientDDecays) + own * rowPitch : arrayAt(c, linearGradientDStrengths) + own * columnPitch;
    float sum = 0.0;
    [[dont_unroll]] for (uint n = 0u; n < (ofDecays ? columnBlocks : 1u); ++n)
        [[dont_unroll]] for (uint r = 0u; r < (ofDecays ? rows : valueDim); ++r) sum += workspaceFloat(at + n * chunkTokens * rowPitch + r);
    store(at, sum);
}
