#version 450
// Hides the scores in the workspace where the bit mask (32 keys a word, the first in the lowest bit, 0 = hidden) says so. A chunk of keys may
// begin inside a word: the base is that of the word that holds the chunk's first key.
#define VKATTN_STAGE_BIT_MASK
#include "lib/platform.glsl"

layout(constant_id = 1) const uint keysPerLane = 4;

layout(set = 0, binding = 0, std430) writeonly buffer Workspace { uint workspace[]; };
layout(set = 0, binding = 1, std430) readonly buffer Bits { uint bits[]; };

void main() {
    const uint head = gl_WorkGroupID.z % heads, batch = gl_WorkGroupID.z / heads, row = gl_WorkGroupID.y;
    const uint bitsRow = base + batch * batchStride + head * headStride + row * queryStride;
    const uint workspaceRow = (gl_WorkGroupID.z * queries + row) * rowPitch + keyFirst;
    uint key = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && key < keys; ++c, key += gl_WorkGroupSize.x) {
        const uint bit = (keyFirst & 31u) + key;
        if ((bits[bitsRow + (bit >> 5) * keyStride] >> (bit & 31u) & 1u) == 0u) workspace[workspaceRow + key] = hiddenBits;
    }
}
