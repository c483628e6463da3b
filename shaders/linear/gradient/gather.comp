#version 450
// Gathers an operand of linear attention into the blocks of a span of chunks: keys and queries, or what features make
// of them (exponents of FAVOR); values; dOut; decays as factors; write strengths. What is not there is 0, of exponents
// minus infinity, and a decay of 1, so that no later stage asks. A workgroup has a row of
// an array, which takes no division for each element; where an element takes long, or a row is one, a lane has an element.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"

layout(set = 0, binding = slotLinearSource, std430) readonly buffer Source { uint source[]; };
layout(set = 0, binding = slotLinearOmega, std430) readonly buffer Omega { uint omega[]; };

const uint featuresElu1 = 0u, featuresRelu = 1u, featuresFavor2 = 3u;
const uint features = form >> formLinearFeatures & 3u;
const bool isRandom = (form & formLinearRandom) != 0u;

float element(uint at, uint dim) { return LOAD_ELEMENT(source, sourceType, at + dim * dimStride); }

float elu1(float x) { return x > 0.0 ? x + 1.0 : isNanBits(floatBitsToUint(x)) ? x : exp(x); }
// Larger than epsilon wherever x is above 0: the gradient tells the sides apart by it.
float relu(float x) {
    const float next = uintBitsToFloat(floatBitsToUint(epsilon) + 1u);
    return x > 0.0 ? max(x + epsilon, next) : isNanBits(floatBitsToUint(x)) ? x : epsilon;
}

// Feature `row` of the token at `at`.
float feature(uint at, uint row, bool ofRows) {
    if (!isRandom) return features == featuresElu1 ? elu1(element(at, row)) : relu(element(at, row));
    const uint m = features == featuresFavor2 ? rows / 2u : rows;
    const uint omegaAt = omegaBase + mappedHead(stateHead, stateHeads, omegaHeads) * omegaHead + row % m * omegaToken;
    float product = 0.0, square = 0.0;
    [[dont_unroll]] for (uint d = 0u; d < keyDim; ++d) {
        const float x = element(at, d);
        product = fma(uintBitsToFloat(omega[omegaAt + d * omegaDim]), x, product);
        square = fma(x, x, square);
    }
    if (features == featuresRelu) return relu(product / sqrt(float(m)));
    const float root = sqrt(abs(scale)), factor = ofRows && scale < 0.0 ? -root : root;
    const float exponent = row >= m ? -factor * product : factor * product;
    return ofRows ? exponent : exponent - 0.5 * abs(scale) * square;
}

void main() {
    beginUnit();
    const bool ofRows = what == linearOfRows || what == linearOfGiven, ofFeatures = isMapped && (what == linearOfKeys || what == linearOfRows);
    uint pitch = rowPitch, dims = ofFeatures ? rows : keyDim, array = linearGradientKeys;
    if (what == linearOfRows) array = linearGradientRows;
    if (what == linearOfValues || what == linearOfGiven) {
        pitch = columnPitch, dims = valueDim;
        array = what == linearOfValues ? linearGradientValues : linearGradientGiven;
    }
    if (what == linearOfDecays) {
        array = linearGradientFactors;
        if (!decaysKeyDims) pitch = dims = 1u;
    }
    if (what == linearOfStrengths) {
        array = linearGradientStrengths;
        pitch = dims = 1u;
    }
    // dv of the delta rules comes behind dOut, and is 0 where it is not.
    const uint groups = !ofRows ? 1u : isDelta && what == linearOfGiven ? groupHeads() + 1u : groupHeads(), perChunk = groups * chunkTokens;
    const bool byElement = pitch == 1u || (ofFeatures && isRandom);
    const uint line = byElement ? gl_GlobalInvocationID.x / pitch : gl_WorkGroupID.x;
    if (line >= chunks * perChunk) return;
    const ChunkPlace chunk = chunkOf(line / perChunk);
    const uint within = line % perChunk, slot = within % chunkTokens, n = within / chunkTokens;
    const int token = ofRows ? rowOf(chunk, slot) : chunk.first + int(slot);
    const bool there = ofRows ? n < groupHeads() && hasRow(chunk, slot) && sees(token) : hasToken(chunk, slot);
    const uint head = ofRows ? mappedHead(headOfState(min(n, groupHeads() - 1u)), heads, ownHeads) : mappedHead(stateHead, stateHeads, ownHeads);
    const uint at = sourceBase + entry * batchStride + head * headStride + uint(token) * tokenStride, to = arrayAt(chunk, array) + within * pitch;
    const float none = what == linearOfDecays ? 1.0 : ofFeatures && hasMaximum ? uintBitsToFloat(minusInfinityBits) : 0.0;
    const uint first = byElement ? gl_GlobalInvocationID.x % pitch : gl_LocalInvocationID.x, step = byElement ? pitch : gl_WorkGroupSize.x;
    [[dont_unroll]] for (uint dim = first; dim < pitch; dim += step) {
        float value = none;
        if (there && dim < dims) {
            if (ofFeatures) {
                value = feature(at, dim, ofRows);
            } else {
                value = element(at, dim);
                if (what == linearOfDecays) value = isNanBits(floatBitsToUint(value)) ? value : exp(value);
                if (what == linearOfGiven && !isMapped) value *= scale;
            }
        }
        store(to + dim, value);
    }
}
