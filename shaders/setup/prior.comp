#version 450
// Attention over other keys, which a problem goes on from (vkattn_problem::priorOut), put where kernels find it: the
// flash kernels have it as one more partial result, the staged kernel as a column of the softmax and the beginning of the
// sums of values. One workgroup per row. No output is read before this has read what may be the same memory.
#define VKATTN_STAGE_PRIOR
#include "lib/platform.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "lib/element.glsl"
#include "lib/math.glsl"

// A row that saw nothing is minus infinity, and everything else that is no number NaN.
uint priorBits(uint head, uint token) {
    const uint bits = second[lseBase + batch * lseBatch + head * lseHead + token * lseToken];
    return bits == minusInfinityBits || isFiniteBits(bits) ? bits : canonicalNanBits;
}

// ln(exp(a) + exp(b)) of bits, either of which may be minus infinity or no number.
uint sumOfExponents(uint a, uint b) {
    if (a == minusInfinityBits) return b;
    if (b == minusInfinityBits) return a;
    if (!isFiniteBits(a) || !isFiniteBits(b)) return canonicalNanBits;
    const float x = uintBitsToFloat(a), y = uintBitsToFloat(b), top = max(x, y);
    return floatBitsToUint(top + log(expDifference(x, top) + expDifference(y, top)));
}

void writeColumn(uint end, uint head, uint token) {
    const uint prior = priorBits(head, token);
    const uint sink = (form & formPriorSinks) != 0u ? first[sinksBase + head] : minusInfinityBits;
    workspace[end - 2u] = prior;
    workspace[end - 1u] = sumOfExponents(prior, sink);
}

void main() {
    const uint lane = gl_LocalInvocationID.x, i = gl_WorkGroupID.x, head = gl_WorkGroupID.z % heads;
    beginSequence(gl_WorkGroupID.z / heads);
    if (i >= rowsOf(seq)) return;
    const uint token = seq.queryStart + i;
    const uint rowOfChunk = gl_WorkGroupID.z * queries + i, end = (rowOfChunk + 1u) * rowPitch;
    if ((form & formPriorColumn) != 0u) {
        if (lane == 0u) writeColumn(end, head, token);
        return;
    }

    uint to; // of the first dim
    float weight = 1.0;
    bool isRead, isNumber;
    if (form == formPriorPart) {
        const uint bits = priorBits(head, token);
        isRead = isFiniteBits(bits), isNumber = true;
        const uint row = ((batch * (heads / packed) + head / packed) * queries + i) * packed + head % packed;
        to = row * parts * (valueDim + partialWords);
        if (lane == 0u) {
            // Of a row that saw nothing, and of one that is no number, what a split leaves (attention/row_end.glsl).
            workspace[to] = isRead ? bits : floatBitsToUint(lowest);
            workspace[to + 1u] = isRead ? floatBitsToUint(1.0) : 0u;
            workspace[to + 2u] = bits == minusInfinityBits ? 0u : bits & 0x7fffffffu;
        }
        to += partialWords;
    } else {
        const uint bits = workspace[end - 2u], whole = workspace[end - 1u];
        isNumber = isFiniteBits(whole) || bits == minusInfinityBits;
        isRead = isFiniteBits(bits) && isNumber;
        if (isRead) weight = expDifference(uintBitsToFloat(bits), uintBitsToFloat(whole));
        to = sumsBase + rowOfChunk * valueDim;
    }
    const uint outAt = outBase + batch * outBatch + head * outHead + token * outToken;
    for (uint dim = lane; dim < valueDim; dim += gl_WorkGroupSize.x) {
        uint bits = isNumber ? 0u : canonicalNanBits;
        if (isRead) bits = scoreBits(weight * LOAD_ELEMENT(first, qType, outAt + dim * outDim));
        workspace[to + dim] = bits;
    }
}
