#version 450
// The mean over the groups of X. An invocation takes two neighbouring columns.
#define VKATTN_STAGE_MEAN
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };

// Runs of so many groups are summed up on their own: errors of many groups stay small.
const uint runGroups = 32u;

uint xAt;

float loadX(uint group, uint column) { return LOAD_ELEMENT(xWords, xType, xAt + group * xStrides.group + column * xStrides.column); }

// Values are divided first, so that the sum of finite values stays finite.
vec2 meanOf(uint column, uint second) {
    vec2 mean = vec2(0.0);
    [[dont_unroll]] for (uint first = 0u; first < groups; first += runGroups) {
        vec2 run = vec2(0.0);
        // Unrolled: Mesa 22's software driver silently leaves a shader after 65,535 iterations of all its
        // loops together (found 2026-11-23: groups past 61,664 had no effect).
        [[unroll]] for (uint n = 0u; n < runGroups; ++n) {
            const uint group = min(first + n, groups - 1u);
            const vec2 sum = vec2(fma(loadX(group, column), share, run.x), fma(loadX(group, second), share, run.y));
            run = first + n < groups ? sum : run;
        }
        mean += run;
    }
    return mean;
}

void main() {
    const uint column = 2u * gl_GlobalInvocationID.x;
    if (column >= columns) return;
    xAt = xBase + gl_WorkGroupID.z * xStrides.batch + gl_WorkGroupID.y * xStrides.row;
    const uint yAt = yBase + gl_WorkGroupID.z * yStrides.batch + gl_WorkGroupID.y * yStrides.row + column * yStrides.column;
    const bool both = column + 1u < columns;
    const vec2 mean = meanOf(column, both ? column + 1u : column);
    if (both) {
        STORE_ELEMENT_PAIR(yWords, yType, yAt, yStrides.column, mean.x, mean.y)
    } else {
        STORE_ELEMENT(yWords, yType, yAt, mean.x)
    }
}
