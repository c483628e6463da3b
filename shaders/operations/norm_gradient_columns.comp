#version 450
// The sums of dY * z and of dY over a block of rows, for the gradients of gamma and beta. An invocation
// takes a column. Rows are counted through the batch entries and groups of the box.
#define VKATTN_STAGE_NORM_GRADIENT_COLUMNS
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
const uint xType = elementTypes & 15u, dYType = elementTypes >> typesDY & 15u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotPartialSums, std430) writeonly buffer Partial { float partial[]; };
layout(set = 0, binding = slotDY, std430) readonly buffer DY { uint dYWords[]; };
layout(set = 0, binding = slotFacts, std430) readonly buffer Facts { float facts[]; };

void main() {
    const uint column = gl_GlobalInvocationID.x, block = gl_WorkGroupID.y;
    if (column >= dims) return;
    vec2 sums = vec2(0.0);
    const uint end = min((block + 1u) * blockRows, allRows);
    [[dont_unroll]] for (uint n = block * blockRows; n < end; ++n) {
        const uint entry = n / rows, row = n % rows, batch = entry / groups, group = entry % groups;
        const float x = LOAD_ELEMENT(xWords, xType,
                                     xBase + batch * xStrides.batch + group * xStrides.group + row * xStrides.row + column * xStrides.column);
        const float dY = LOAD_ELEMENT(
            dYWords, dYType, dYBase + batch * dYStrides.batch + group * dYStrides.group + row * dYStrides.row + column * dYStrides.column);
        const uint at = factsBase + 3u * n;
        sums = vec2(fma(dY, (x - facts[at] - facts[at + 1u]) * facts[at + 2u], sums.x), sums.y + dY);
    }
    const uint to = partialBase + 2u * block * dims + column;
    partial[to] = sums.x;
    partial[to + dims] = sums.y;
}
