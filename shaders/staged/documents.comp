#version 450
// Hides the scores in the workspace where query and key belong to different documents.
#define VKATTN_STAGE_DOCUMENTS
#include "lib/platform.glsl"

layout(constant_id = 1) const uint keysPerLane = 4;

layout(set = 0, binding = 0, std430) writeonly buffer Workspace { uint workspace[]; };
layout(set = 0, binding = 1, std430) readonly buffer IdsQ { uint idsQ[]; };
layout(set = 0, binding = 2, std430) readonly buffer IdsK { uint idsK[]; };
layout(set = 0, binding = 3, std430) readonly buffer Lengths { uint lengths[]; };

#include "attention/sequence.glsl"

void main() {
    const uint batch = gl_WorkGroupID.z / heads, row = gl_WorkGroupID.y;
    const Sequence sequence = sequenceOf(batch);
    if (row >= rowsOf(sequence)) return;
    const uint document = idsQ[idsQBase + batch * idsQBatch + sequence.queryStart + row];
    const uint idsKAt = idsKBase + batch * idsKBatch + sequence.keyStart;
    const uint workspaceRow = (gl_WorkGroupID.z * queries + row) * rowPitch + keyFirst;
    const uint keyCount = keysOf(sequence); // keys past it are hidden already, and there may be nothing to read
    uint key = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && key < keyCount; ++c, key += gl_WorkGroupSize.x)
        if (idsK[idsKAt + key] != document) workspace[workspaceRow + key] = hiddenBits;
}
