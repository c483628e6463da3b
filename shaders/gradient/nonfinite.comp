#version 450
// ORs 1 into a word where a stored gradient is infinite or NaN, by integer tests. An integer's OR is
// the same in any order. An invocation has an element.
#define VKATTN_STAGE_NONFINITE
#include "lib/platform.glsl"

#include "attention/operands.glsl"
#include "attention/sequence.glsl"

void main() {
    const uint dim = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y, head = gl_WorkGroupID.z % groups;
    beginSequence(gl_WorkGroupID.z / groups);
    if (dim >= dims) return;
    uint at = oBase + batch * oBatch + head * oHead + token * oToken + dim * oDim;
    // What lies past a sequence of a ragged batch is nobody's.
    const bool ofRows = (flags & flagTokensOfRows) != 0u, ofKeys = (flags & flagTokensOfKeys) != 0u;
    if ((flags & flagRagged) != 0u && (ofRows || ofKeys)) {
        if (token >= (ofKeys ? keysOf(seq) : rowsOf(seq))) return;
        at += (ofKeys ? seq.keyStart : seq.queryStart) * oToken;
    }
    const uint exponent = qType == elementF32 ? 0x7f800000u : qType == elementF16 ? 0x7c00u : 0x7f80u;
    const uint bits = qType == elementF32 ? stored[at] : stored[at >> 1] >> ((at & 1u) << 4) & 0xffffu;
    if ((bits & exponent) == exponent) atomicOr(word[wordBase], 1u);
}
