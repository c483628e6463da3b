#version 450
// What the backward pass needs of each row before it sees pairs: the softmax's maximum and inverse
// sum, and delta = D_i - dLse_i. Five tensors say it, more than the four storage buffers that Vulkan
// 1.0 guarantees take: the first dispatch (formDots) leaves D_i = dot(dOut_i, out_i), the second goes
// on from there. An invocation has a row. Nothing here asks whether the row sees a key: who uses the
// facts meets a pair first.
#define VKATTN_STAGE_ROW_FACTS
#include "lib/platform.glsl"

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "lib/element.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
const uint firstType = elementTypes & 15u, secondType = elementTypes >> typesOut & 15u;

const uint chains = 4u; // of additions: they wait for each other, and long ones round more

void main() {
    const uint query = gl_GlobalInvocationID.x, head = gl_WorkGroupID.z % heads;
    beginSequence(gl_WorkGroupID.z / heads);
    if (query >= rowsOf(seq)) return;
    const uint factsAt = factsBase + (gl_WorkGroupID.z * queries + query) * rowFactWords;
    const uint token = seq.queryStart + query;
    uint firstAt = firstBase + batch * firstBatch + head * firstHead + token * firstToken;
    uint secondAt = secondBase + batch * secondBatch + head * secondHead + token * secondToken;
    if ((form & formDots) != 0u) {
        float sums[chains];
        [[unroll]] for (uint n = 0u; n < chains; ++n) sums[n] = 0.0;
        for (uint d = 0u; d < dims; d += chains)
            [[unroll]] for (uint n = 0u; n < chains; ++n)
                if (d + n < dims) {
                    sums[n] = fma(LOAD_ELEMENT(first, firstType, firstAt), LOAD_ELEMENT(second, secondType, secondAt), sums[n]);
                    firstAt += firstDim;
                    secondAt += secondDim;
                }
        workspace[factsAt + factDelta] = scoreBits((sums[0] + sums[1]) + (sums[2] + sums[3]));
        return;
    }
    const uint maximumBits = first[firstAt], sumBits = first[firstAt + firstDim];
    const bool undefined = isNanBits(maximumBits) || isNanBits(sumBits);
    const bool empty = !undefined && (sumBits & 0x7fffffffu) == 0u;
    workspace[factsAt + factMaximum] = undefined ? canonicalNanBits : maximumBits;
    workspace[factsAt + factInverseSum] = undefined ? canonicalNanBits : empty ? 0u : floatBitsToUint(1.0 / uintBitsToFloat(sumBits));
    const uint dLseBits = (form & formDLse) != 0u ? second[secondAt] : 0u;
    const uint dotBits = workspace[factsAt + factDelta];
    const bool deltaUndefined = isNanBits(dLseBits) || isNanBits(dotBits);
    workspace[factsAt + factDelta] =
        deltaUndefined ? canonicalNanBits : scoreBits(uintBitsToFloat(dotBits) - uintBitsToFloat(dLseBits));
    workspace[factsAt + factDLse] = dLseBits;
}
