#version 450
// Rotary position embedding (Su et al. 2021): rotates pairs of dims by the angles of a table, and
// copies the other dims. An invocation rotates two neighbouring pairs, or copies two neighbouring
// dims, so that 16-bit results fill words.
#define VKATTN_STAGE_ROTARY
#include "lib/platform.glsl"

#include "operations/tokens.glsl"

layout(set = 0, binding = slotCos, std430) readonly buffer Cos { float cosines[]; };
layout(set = 0, binding = slotSin, std430) readonly buffer Sin { float sines[]; };
layout(set = 0, binding = slotStarts, std430) readonly buffer Starts { uint starts[]; };
layout(set = 0, binding = slotPositions, std430) readonly buffer Positions { uint positionOf[]; };

const bool interleaved = (form & formInterleaved) != 0u;
const float direction = (form & formInverse) != 0u ? -1.0 : 1.0;

uint tableRow;

vec2 rotatedPair(uint pair) {
    const float c = cosines[cosBase + tableRow * cosRow + pair * cosColumn];
    const float s = direction * sines[sinBase + tableRow * sinRow + pair * sinColumn];
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
    beginToken(token, hasStarts ? starts[startsBase + batch] : 0u);
    if (!tokenHasPlace) return;
    const uint row = rowFirst + token;
    uint position = min(firstPlace, positions) + row; // neither is over 2^30
    if ((form & formPositions) != 0u) position = positionOf[positionsBase + batch * positionsBatch + token];
    tableRow = min(position, positions - 1u);
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
