#version 450
// Stores the gradients of a span: adds up the parts that blocks of the state have left, and heads and batch entries that
// share an operand, in ascending order; and, of random features, takes them through omega. A workgroup has a row of the gradient,
// or a lane an element, as in gather.comp.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"
#include "linear/gradient/output.glsl"

layout(set = 0, binding = slotLinearSource, std430) readonly buffer Source { uint source[]; };
layout(set = 0, binding = slotLinearOmega, std430) readonly buffer Omega { uint omega[]; };

const uint featuresRelu = 1u, featuresFavor2 = 3u;
const uint features = form >> formLinearFeatures & 3u;
const bool isRandom = (form & formLinearRandom) != 0u;

float sumOfBlocks(uint at, uint count, uint words) {
    float sum = workspaceFloat(at);
    [[dont_unroll]] for (uint n = 1u; n < count; ++n) sum += workspaceFloat(at + n * words);
    return sum;
}
// From the gradients of random features, from `at` on, to that of dim d of a token.
float throughOmega(uint at, uint d, int token) {
    const uint m = features == featuresFavor2 ? rows / 2u : rows;
    const uint omegaAt = omegaBase + mappedHead(stateHead, stateHeads, omegaHeads) * omegaHead + d * omegaDim;
    float product = 0.0, all = 0.0;
    [[dont_unroll]] for (uint r = 0u; r < rows; ++r) {
        const float each = workspaceFloat(at + r), weight = uintBitsToFloat(omega[omegaAt + r % m * omegaToken]);
        // A feature of RELU that is off has no part in it.
        product += each == 0.0 ? 0.0 : (r < m ? each : -each) * weight;
        all += each;
    }
    if (features == featuresRelu) return product / sqrt(float(m));
    const float root = sqrt(abs(scale));
    if (what == linearOfRows) return (scale < 0.0 ? -root : root) * product;
    const uint strides = linearGradientKeyStrides;
    const uint key = sourceBase + entry * workspace[strides] + mappedHead(stateHead, stateHeads, workspace[strides + 4u]) * workspace[strides + 1u] +
                     uint(token) * workspace[strides + 2u] + d * workspace[strides + 3u];
    return root * (product - all * (root * LOAD_ELEMENT(source, sourceType, key)));
}
// What head `head` of out, or of the state, adds.
float partOf(ChunkPlace c, uint n, uint slot, uint d, int token) {
    if (what == linearOfRows) {
        const uint readHeads = isDelta ? groupHeads() + 1u : groupHeads();
        const uint at = arrayAt(c, linearGradientDRows) + (n * chunkTokens + slot) * rowPitch;
        if (isRandom) return throughOmega(at, d, token);
        return sumOfBlocks(at + d, isMapped ? 1u : columnBlocks, readHeads * chunkTokens * rowPitch);
    }
    if (what == linearOfKeys) {
        const uint at = arrayAt(c, linearGradientDKeys) + slot * rowPitch;
        if (isRandom) return throughOmega(at, d, token);
        return sumOfBlocks(at + d, isMapped ? 1u : columnBlocks, chunkTokens * rowPitch);
    }
    if (what == linearOfValues) {
        if (isDelta) return workspaceFloat(arrayAt(c, linearGradientGiven) + (groupHeads() * chunkTokens + slot) * columnPitch + d);
        return sumOfBlocks(arrayAt(c, linearGradientDValues) + slot * columnPitch + d, rowBlocks, chunkTokens * columnPitch);
    }
    if (what == linearOfDecays) return sumOfBlocks(arrayAt(c, linearGradientDDecays) + slot * rowPitch + d, decaysKeyDims ? columnBlocks : 1u,
                                                  chunkTokens * rowPitch);
    return workspaceFloat(arrayAt(c, linearGradientDStrengths) + slot * columnPitch);
}

void main() {
    rowPitch = workspace[linearGradientRowPitch];
    columnPitch = workspace[linearGradientColumnPitch];
    const bool ofRows = what == linearOfRows;
    const uint dims = what == linearOfValues ? valueDim : what == linearOfStrengths || (what == linearOfDecays && !decaysKeyDims) ? 1u : keyDim;
    const bool byElement = dims == 1u || (isRandom && what != linearOfValues);
    const uint line = byElement ? gl_GlobalInvocationID.x / dims : gl_WorkGroupID.x, own = gl_WorkGroupID.y;
    if (line >= chunks * chunkTokens) return;
    const uint slot = line % chunkTokens, local = line / chunkTokens;
    const uint count = ofRows ? heads : stateHeads, sharing = count / ownHeads;
    const bool isModulo = (form & formLinearModulo) != 0u;
    const uint first = byElement ? gl_GlobalInvocationID.x % dims : gl_LocalInvocationID.x, step = byElement ? dims : gl_WorkGroupSize.x;
    [[dont_unroll]] for (uint d = first; d < dims; d += step) {
        float sum = 0.0;
        int token = 0;
        [[dont_unroll]] for (uint b = 0u; b < batches; ++b) {
            beginEntry(gl_WorkGroupID.z + b);
            unit = 0u;
            ChunkPlace c = chunkOf(local);
            token = ofRows ? rowOf(c, slot) : c.first + int(slot);
            // Not stored by this chunk.
            if (ofRows ? !hasRow(c, slot) : c.isReading || token >= int(keyTokens)) return;
            if (ofRows ? !sees(token) : !hasToken(c, slot)) continue;
            [[dont_unroll]] for (uint k = 0u; k < sharing; ++k) {
                const uint head = isModulo ? k * ownHeads + own : own * sharing + k;
                const uint n = !ofRows ? 0u : isModulo ? head / stateHeads : head % groupHeads();
                stateHead = !ofRows ? head : isModulo ? head % stateHeads : head / groupHeads();
                unit = entry * stateHeads + stateHead;
                c = chunkOf(local);
                sum += partOf(c, n, slot, d, token);
            }
        }
        storeGradient(gradientBase + gl_WorkGroupID.z * batchStride + own * headStride + uint(token) * tokenStride + d * dimStride, sum);
    }
}
