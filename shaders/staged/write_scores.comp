#version 450
// Scores of the workspace into the tensor of VKATTN_SCORES. Up to the stage of softcap the workspace
// has them of every key that there is; of final scores hidden ones are told apart by their bits.
#define VKATTN_STAGE_WRITE_SCORES
#include "lib/platform.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
layout(constant_id = 8) const uint keysPerLane = 4;

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "lib/element.glsl"
#include "lib/math.glsl"

void main() {
    const uint head = gl_WorkGroupID.z % heads, query = gl_WorkGroupID.y;
    beginSequence(gl_WorkGroupID.z / heads);
    if (query >= rowsOf(seq)) return;
    const uint workspaceRow = (gl_WorkGroupID.z * queries + query) * rowPitch + keyFirst;
    const uint at = oBase + batch * oBatch + head * oHead + query * oQuery;
    // Past a key length there is no score; what lies past a sequence of a ragged batch is nobody's.
    const uint keyCount = keysOf(seq), stored = (flags & flagRagged) != 0u ? keyCount : keys;
    const uint none = (form & formFinalScores) != 0u ? minusInfinityBits : 0u;
    uint n = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && n < stored; ++c, n += gl_WorkGroupSize.x) {
        const uint bits = n < keyCount ? workspace[workspaceRow + n] : hiddenBits;
        STORE_ELEMENT(outWords, outType, at + n * oKey, uintBitsToFloat(bits == hiddenBits ? none : bits))
    }
}
