// Tokens of rotary and append: where a token comes from and where it goes. A start that a device
// array holds is never trusted: tokens past the end of the cache have no place.
#include "lib/element.glsl"
#include "operations/starts.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u;
#ifdef VKATTN_STAGE_APPEND
const bool appends = true;
#else
const bool appends = (form & formAppend) != 0u;
#endif

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };

uint batch, xAt, yAt; // of the token's dim 0
uint place;           // the token of Y
bool tokenHasPlace;

// `startOfBatch` is the entry of the array; 0 where there is none.
void beginToken(uint token, uint startOfBatch) {
    const uint group = gl_WorkGroupID.z % groups;
    xAt = xBase + batch * xStrides.batch + group * xStrides.group + token * xStrides.row;
    const uint firstPlace = hasStarts ? startOfBatch : start;
    // No sum wraps: a start past the cache has no place for any token.
    const uint row = rowFirst + token;
    tokenHasPlace = !appends || (firstPlace < cacheRows && row < cacheRows - firstPlace);
    place = appends ? firstPlace + row : token;
    yAt = yBase + batch * yStrides.batch + group * yStrides.group + place * yStrides.row;
}

float loadX(uint dim) { return LOAD_ELEMENT(xWords, xType, xAt + dim * xStrides.column); }
void storeY(uint dim, float value) { STORE_ELEMENT(yWords, yType, yAt + dim * yStrides.column, value) }
void storeNeighbours(uint dim, float first, float second) {
    STORE_ELEMENT_PAIR(yWords, yType, yAt + dim * yStrides.column, yStrides.column, first, second)
}
