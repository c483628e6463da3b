#version 450
// Subtracts the head's ALiBi slope times the distance of key and query from the scores in the workspace.
#define VKATTN_STAGE_ALIBI
#include "lib/platform.glsl"

layout(constant_id = 1) const uint keysPerLane = 4;

layout(set = 0, binding = 0, std430) buffer Workspace { uint workspace[]; };
layout(set = 0, binding = 1, std430) readonly buffer Slopes { uint slopes[]; };
layout(set = 0, binding = 2, std430) readonly buffer Lengths { uint lengths[]; };

#include "attention/sequence.glsl"

void main() {
    const uint head = gl_WorkGroupID.z % heads, batch = gl_WorkGroupID.z / heads, row = gl_WorkGroupID.y;
    const Sequence sequence = sequenceOf(batch);
    if (row >= rowsOf(sequence)) return;
    const int position = alignedPosition(row, sequence);
    const uint slopeBits = slopes[base + head];
    const float slope = uintBitsToFloat(slopeBits);
    const uint workspaceRow = (gl_WorkGroupID.z * queries + row) * rowPitch + keyFirst;
    uint key = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && key < keys; ++c, key += gl_WorkGroupSize.x) {
        const uint bits = workspace[workspaceRow + key];
        if (bits == hiddenBits) continue;
        const int distance = abs(int(keyFirst + key) - position);
        // An infinite slope times a distance of 0 is NaN, as the formula has it.
        const bool undefined = isNanBits(slopeBits) || isNanBits(bits) || (!isFiniteBits(slopeBits) && distance == 0);
        workspace[workspaceRow + key] =
            undefined ? canonicalNanBits : scoreBits(fma(-slope, float(distance), uintBitsToFloat(bits)));
    }
}
