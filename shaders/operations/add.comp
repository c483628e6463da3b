#version 450
// Y = X + addend, or Y = X in another type: what operations gather in the workspace where a device
// has only four buffers. An invocation takes two neighbouring columns.
#define VKATTN_STAGE_ADD
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u, addendType = elementTypes >> typesW & 15u;
const bool hasAddend = (form & formFirstAddend) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };
layout(set = 0, binding = slotAddend, std430) readonly buffer Addend { uint addendWords[]; };

uint at(uint base, Strides strides) {
    return base + gl_WorkGroupID.z / groups * strides.batch + gl_WorkGroupID.z % groups * strides.group + gl_WorkGroupID.y * strides.row;
}

uint xAt, addendAt;

float sumOf(uint column) {
    const float x = LOAD_ELEMENT(xWords, xType, xAt + column * xStrides.column);
    return hasAddend ? x + LOAD_ELEMENT(addendWords, addendType, addendAt + column * addendStrides.column) : x;
}

void main() {
    const uint column = 2u * gl_GlobalInvocationID.x, yAt = at(yBase, yStrides) + column * yStrides.column;
    if (column >= columns) return;
    xAt = at(xBase, xStrides);
    addendAt = at(addendBase, addendStrides);
    if (column + 1u < columns) {
        STORE_ELEMENT_PAIR(yWords, yType, yAt, yStrides.column, sumOf(column), sumOf(column + 1u))
    } else {
        STORE_ELEMENT(yWords, yType, yAt, sumOf(column))
    }
}
