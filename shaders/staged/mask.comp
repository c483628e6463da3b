#version 450
// Hides the scores in the workspace where the boolean mask (one byte a pair, 0 = hidden) says so. Bytes are read from 32-bit words: no
// 8-bit storage feature is needed.
#define VKATTN_STAGE_MASK
#include "lib/platform.glsl"

layout(constant_id = 1) const uint keysPerLane = 4;

layout(set = 0, binding = 0, std430) writeonly buffer Workspace { uint workspace[]; };
layout(set = 0, binding = 1, std430) readonly buffer Mask { uint mask[]; };

void main() {
    const uint head = gl_WorkGroupID.z % heads, batch = gl_WorkGroupID.z / heads, row = gl_WorkGroupID.y;
    const uint maskRow = base + batch * batchStride + head * headStride + row * queryStride;
    const uint workspaceRow = (gl_WorkGroupID.z * queries + row) * rowPitch + keyFirst;
    uint key = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && key < keys; ++c, key += gl_WorkGroupSize.x) {
        const uint at = maskRow + key * keyStride;
        if (((mask[at >> 2] >> ((at & 3u) << 3)) & 0xffu) == 0u) workspace[workspaceRow + key] = hiddenBits;
    }
}
