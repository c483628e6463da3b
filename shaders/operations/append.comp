#version 450
// Appends tokens to a cache: copies them to where the cache ends, converted to the cache's type. An
// invocation copies two neighbouring dims of a token.
#define VKATTN_STAGE_APPEND
#include "lib/platform.glsl"

#include "operations/tokens.glsl"

layout(set = 0, binding = slotAppendStarts, std430) readonly buffer Starts { uint starts[]; };

void main() {
    const uint dim = 2u * gl_GlobalInvocationID.x;
    batch = gl_WorkGroupID.z / groups;
    beginToken(gl_WorkGroupID.y, hasStarts ? starts[startsBase + batch] : 0u);
    if (dim >= dims || !tokenHasPlace) return;
    if (dim + 1u < dims)
        storeNeighbours(dim, loadX(dim), loadX(dim + 1u));
    else
        storeY(dim, loadX(dim));
}
