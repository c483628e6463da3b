#version 450
// Rotary position embedding (Su et al. 2021): rotates pairs of dims by the angles of a table, and
// copies the other dims. An invocation rotates two neighbouring pairs, or copies two neighbouring
// dims, so that 16-bit results fill words.
//
// Defines: VKATTN_PLAIN: angles.comp has gathered the angles of each token; the shader stays within
// the four storage buffers that Vulkan 1.0 guarantees.
#define VKATTN_STAGE_ROTARY
#include "lib/platform.glsl"

#ifdef VKATTN_PLAIN
layout(set = 0, binding = slotAngles, std430) readonly buffer Angles { float angles[]; };
layout(set = 0, binding = slotPlainStarts, std430) readonly buffer Starts { uint starts[]; };
#else
#include "operations/positions.glsl"
layout(set = 0, binding = slotStarts, std430) readonly buffer Starts { uint starts[]; };
layout(set = 0, binding = slotPositions, std430) readonly buffer Positions { uint positionOf[]; };
#endif
#include "operations/tokens.glsl"

const bool interleaved = (form & formInterleaved) != 0u;
const float direction = (form & formInverse) != 0u ? -1.0 : 1.0;

uint tableRow; // of the token

vec2 rotatedPair(uint pair) {
#ifdef VKATTN_PLAIN
    const uint at = tableRow * 2u * pairs + pair;
    const float c = angles[at], s = direction * angles[at + pairs];
#else
    const float c = cosines[cosBase + tableRow * cosRow + pair * cosColumn];
    const float s = direction * sines[sinBase + tableRow * sinRow + pair * sinColumn];
#endif
    const float x0 = loadX(interleaved ? 2u * pair : pair), x1 = loadX(interleaved ? 2u * pair + 1u : pairs + pair);
    return vec2(x0 * c - x1 * s, x0 * s + x1 * c);
}

void rotate(uint pair) {
    const vec2 first = rotatedPair(pair);
    if (interleaved) {
        storeNeighbours(2u * pair, first.x, first.y);
        if (pair + 1u >= pairs) return;
        const vec2 second = rotatedPair(pair + 1u);
        storeNeighbours(2u * pair + 2u, second.x, second.y);
    } else if (pair + 1u < pairs) {
        const vec2 second = rotatedPair(pair + 1u);
        storeNeighbours(pair, first.x, second.x);
        storeNeighbours(pairs + pair, first.y, second.y);
    } else {
        storeY(pair, first.x);
        storeY(pairs + pair, first.y);
    }
}

void main() {
    const uint token = gl_WorkGroupID.y, unit = gl_GlobalInvocationID.x, rotations = (pairs + 1u) / 2u;
    batch = gl_WorkGroupID.z / groups;
    const uint startOfBatch = hasStarts ? starts[startsBase + batch] : 0u;
    beginToken(token, startOfBatch);
    if (!tokenHasPlace) return;
#ifdef VKATTN_PLAIN
    tableRow = batch * rows + token;
#else
    tableRow = tableRowOf(token, hasPositions ? positionOf[positionsBase + batch * positionsBatch + token] : 0u, startOfBatch);
#endif
    if (unit < rotations) {
        rotate(2u * unit);
        return;
    }
    const uint dim = 2u * (pairs + unit - rotations);
    if (dim + 1u < dims)
        storeNeighbours(dim, loadX(dim), loadX(dim + 1u));
    else if (dim < dims)
        storeY(dim, loadX(dim));
}
