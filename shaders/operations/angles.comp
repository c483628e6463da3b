#version 450
// Gathers the cosines and sines of each token's position in the workspace, [batch][token][cosines,
// sines], for rotary.comp on devices that have only four buffers.
#define VKATTN_STAGE_ANGLES
#include "lib/platform.glsl"

#include "operations/positions.glsl"

layout(set = 0, binding = slotAnglesWhere, std430) readonly buffer Where { uint where[]; };
layout(set = 0, binding = slotAnglesOut, std430) writeonly buffer Angles { float angles[]; };

void main() {
    const uint pair = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y, batch = gl_WorkGroupID.z;
    if (pair >= pairs) return;
    const uint entry = whereBase + batch * whereBatch;
    const uint row = tableRowOf(token, hasPositions ? where[entry + token] : 0u, hasStarts ? where[entry] : 0u);
    const uint at = (batch * rows + token) * 2u * pairs + pair;
    angles[at] = cosines[cosBase + row * cosRow + pair * cosColumn];
    angles[at + pairs] = sines[sinBase + row * sinRow + pair * sinColumn];
}
