#version 450
// Dropout of X (Srivastava et al. 2014) plus the residual. An invocation takes the four neighbouring
// columns that share a block of random words, and reads them before it writes any, so that Y may be the
// memory of X or of the residual.
#define VKATTN_STAGE_DROP
#include "lib/platform.glsl"

#include "lib/element.glsl"
#include "lib/philox.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u, residualType = elementTypes >> typesResidual & 15u;
const bool hasResidual = (form & formResidual) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };
layout(set = 0, binding = slotResidual, std430) readonly buffer Residual { uint residualWords[]; };

void main() {
    const uint first = 4u * gl_GlobalInvocationID.x;
    if (first >= columns) return;
    const uint row = gl_WorkGroupID.y, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    const uint xAt = xBase + batch * xStrides.batch + group * xStrides.group + row * xStrides.row;
    const uint yAt = yBase + batch * yStrides.batch + group * yStrides.group + row * yStrides.row;
    const uint residualAt = residualBase + batch * residualStrides.batch + group * residualStrides.group + row * residualStrides.row;

    bvec4 kept = bvec4(true);
    if (drops != 0u) {
        const uint plane = planeFirst + batch * planesOfBatch + group;
        const uvec4 random = philox(uvec4(first / 4u, rowFirst + row, plane, offset), uvec2(seedLow, seedHigh));
        kept = greaterThan(random, uvec4(lastDropped));
    }
    const uint count = min(columns - first, 4u);
    vec4 value = vec4(0.0);
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        if (n >= count) continue;
        const uint column = first + n;
        // By selection: what is not finite stays out.
        if (kept[n]) value[n] = factor * LOAD_ELEMENT(xWords, xType, xAt + column * xStrides.column);
        if (hasResidual) value[n] += LOAD_ELEMENT(residualWords, residualType, residualAt + column * residualStrides.column);
    }
    [[unroll]] for (uint n = 0u; n < 4u; n += 2u) {
        const uint at = yAt + (first + n) * yStrides.column;
        if (n + 1u < count) {
            STORE_ELEMENT_PAIR(yWords, yType, at, yStrides.column, value[n], value[n + 1u])
        } else if (n < count) {
            STORE_ELEMENT(yWords, yType, at, value[n])
        }
    }
}
