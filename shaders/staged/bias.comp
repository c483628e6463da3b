#version 450
// Adds the bias to the scores in the workspace; a bias of minus infinity hides. A dispatch of its own so that the scores stage stays within
// the four storage buffers that Vulkan 1.0 guarantees.
#define VKATTN_STAGE_BIAS
#include "lib/platform.glsl"

layout(constant_id = 1) const uint keysPerLane = 4;
layout(constant_id = 2) const uint biasType = elementF32;

layout(set = 0, binding = 0, std430) buffer Workspace { uint workspace[]; };
layout(set = 0, binding = 1, std430) readonly buffer Bias { uint bias[]; };

#include "lib/element.glsl"

void main() {
    const uint head = gl_WorkGroupID.z % heads, batch = gl_WorkGroupID.z / heads, row = gl_WorkGroupID.y;
    const uint biasRow = base + batch * batchStride + head * headStride + row * queryStride;
    const uint workspaceRow = (gl_WorkGroupID.z * queries + row) * rowPitch + keyFirst;
    uint key = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && key < keys; ++c, key += gl_WorkGroupSize.x) {
        const uint bits = workspace[workspaceRow + key];
        if (bits == hiddenBits) continue;
        const float added = LOAD_ELEMENT(bias, biasType, biasRow + key * keyStride);
        const uint addedBits = floatBitsToUint(added);
        workspace[workspaceRow + key] = addedBits == minusInfinityBits              ? hiddenBits
                                        : isNanBits(addedBits) || isNanBits(bits)   ? canonicalNanBits
                                                                                    : scoreBits(uintBitsToFloat(bits) + added);
    }
}
