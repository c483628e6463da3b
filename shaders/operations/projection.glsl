// What every form of the projection has: the operands, and the end of a row and column.
//
// Defines: VKATTN_SECOND_ADDEND: a fifth binding. Without it a shader stays within the four storage
// buffers that Vulkan 1.0 guarantees.
#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u, wType = elementTypes >> typesW & 15u,
           firstType = elementTypes >> typesFirstAddend & 15u, secondType = elementTypes >> typesSecondAddend & 15u;
const bool hasFirst = (form & formFirstAddend) != 0u, wholeInner = (form & formWholeInner) != 0u,
           adjacentInner = (form & formAdjacentInner) != 0u, hasLengths = (form & formLengths) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };
layout(set = 0, binding = slotW, std430) readonly buffer W { uint wWords[]; };
layout(set = 0, binding = slotFirstAddend, std430) readonly buffer First { uint firstWords[]; };
#ifdef VKATTN_SECOND_ADDEND
layout(set = 0, binding = slotSecondAddend, std430) readonly buffer Second { uint secondWords[]; };
#endif

uint xAt, wAt, yAt, firstAt, secondAt; // of the case's row 0 and column 0
uint innerEnd;                         // the inner dims of this dispatch that count in the case

void beginCase() {
    const uint batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    xAt = xBase + batch * xStrides.batch + group * xStrides.group;
    wAt = wBase + batch * wStrides.batch + group * wStrides.group;
    yAt = yBase + batch * yStrides.batch + group * yStrides.group;
    firstAt = firstBase + batch * firstStrides.batch + group * firstStrides.group;
    secondAt = secondBase + batch * secondStrides.batch + group * secondStrides.group;
    innerEnd = inner;
    if (hasLengths) {
        const uint length = firstWords[firstBase + lengthsAt + batch];
        innerEnd = min(length - min(length, innerFirst), inner);
    }
}

// Rows and columns past the end are those of the last valid one. Past the inner dims that count both are 0. No
// branch: software drivers take several times as long for a load under a condition.
float loadX(uint row, uint k) {
    const uint at = wholeInner ? k : min(k, inner - 1u);
    const float value = LOAD_ELEMENT(xWords, xType, xAt + min(row, rows - 1u) * xStrides.row + (adjacentInner ? at : at * xStrides.column));
    return wholeInner || k < innerEnd ? value : 0.0;
}
float loadW(uint column, uint k) {
    const uint at = wholeInner ? k : min(k, inner - 1u);
    const float value = LOAD_ELEMENT(wWords, wType, wAt + min(column, columns - 1u) * wStrides.row + (adjacentInner ? at : at * wStrides.column));
    return wholeInner || k < innerEnd ? value : 0.0;
}

// Adds the addends and stores the result, where there is such a row and column.
void finish(uint row, uint column, float value) {
    if (row >= rows || column >= columns) return;
    if (hasFirst) value += LOAD_ELEMENT(firstWords, firstType, firstAt + row * firstStrides.row + column * firstStrides.column);
#ifdef VKATTN_SECOND_ADDEND
    value += LOAD_ELEMENT(secondWords, secondType, secondAt + row * secondStrides.row + column * secondStrides.column);
#endif
    STORE_ELEMENT(yWords, yType, yAt + row * yStrides.row + column * yStrides.column, value)
}
