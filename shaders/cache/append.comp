#version 450
// Appends tokens to a cache: copies them to where the cache ends, converted to the cache's type. An
// invocation copies two neighbouring dims of a token.
#define VKATTN_STAGE_APPEND
#include "lib/platform.glsl"

#include "operations/tokens.glsl"

layout(set = 0, binding = slotAppendStarts, std430) readonly buffer Starts { uint starts[]; };
layout(set = 0, binding = slotPageTable, std430) readonly buffer PageTable { uint pageTable[]; };

const bool ring = (form & formRing) != 0u, paged = (form & formPages) != 0u;

// What the arrays hold is never trusted: a token without a place is not written, and no sum wraps.
void findPlace(uint token, uint startOfBatch) {
    beginToken(token, startOfBatch);
    if (ring) {
        const uint row = rowFirst + token, first = hasStarts ? startOfBatch : start;
        // Of more tokens than the cache has room for, the last ones stay. As i32 a start from 2^31 on is negative.
        tokenHasPlace = first < 0x80000000u && allRows - row <= cacheRows;
        place = (first % cacheRows + row % cacheRows) % cacheRows;
    }
    uint entry = batch, entryRow = place;
    if (paged) {
        const uint known = tokenHasPlace ? place : 0u;
        // A negative page is a large one, and one before this dispatch's pages is, too.
        entry = pageTable[tableBase + batch * tablePages + known / pageTokens] - pageFirst;
        entryRow = known % pageTokens;
        tokenHasPlace = tokenHasPlace && entry < pages;
    }
    yAt = yBase + entry * yStrides.batch + gl_WorkGroupID.z % groups * yStrides.group + entryRow * yStrides.row;
}

void main() {
    const uint dim = 2u * gl_GlobalInvocationID.x;
    batch = gl_WorkGroupID.z / groups;
    findPlace(gl_WorkGroupID.y, hasStarts ? starts[startsBase + batch] : 0u);
    if (dim >= dims || !tokenHasPlace) return;
    if (dim + 1u < dims)
        storeNeighbours(dim, loadX(dim), loadX(dim + 1u));
    else
        storeY(dim, loadX(dim));
}
