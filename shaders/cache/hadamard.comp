#version 450
// Rows times the Hadamard matrix, in blocks of neighbouring dims (vkattn_hadamard), by log2(block) rounds of sums and
// differences. A workgroup takes a piece of a row, of whole blocks, and reads all of the piece before anything is written,
// so that Y may be the memory of X.
#define VKATTN_STAGE_HADAMARD
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };

shared float piece[hadamardPiece];

void main() {
    const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    const uint first = gl_WorkGroupID.x * pieceDims, count = min(dims - first, pieceDims);
    const uint row = gl_WorkGroupID.y, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    const uint xAt = xBase + batch * xStrides.batch + group * xStrides.group + row * xStrides.row + first * xStrides.column;
    const uint yAt = yBase + batch * yStrides.batch + group * yStrides.group + row * yStrides.row + first * yStrides.column;
    for (uint d = lane; d < count; d += lanes) piece[d] = LOAD_ELEMENT(xWords, xType, xAt + d * xStrides.column);
    for (uint distance = 1u; distance < block; distance *= 2u) {
        barrier();
        for (uint n = lane; 2u * n < count; n += lanes) {
            const uint low = n / distance * distance + n, high = low + distance;
            const float a = piece[low], b = piece[high];
            piece[low] = a + b;
            piece[high] = a - b;
        }
    }
    barrier();
    for (uint d = 2u * lane; d < count; d += 2u * lanes) {
        STORE_ELEMENT_PAIR(yWords, yType, yAt + d * yStrides.column, yStrides.column, factor * piece[d], factor * piece[d + 1u])
    }
}
