#version 450
// Y = X W^T, plus up to two addends: the bias and the residual. A workgroup computes a tile of rows
// and columns of Y, over blocks of the inner dim that it stages in shared memory. A lane owns a block
// of the tile. Rows and columns past the end are computed on the last valid one and not stored: NaN
// in a row of X reaches that row of Y and no other.
//
// Defines: VKATTN_SECOND_ADDEND: a fifth binding. Without it the shader stays within the four storage
// buffers that Vulkan 1.0 guarantees.
#define VKATTN_STAGE_PROJECTION
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
layout(constant_id = 8) const uint columnLanes = 8;
layout(constant_id = 9) const uint rowLanes = 8;
layout(constant_id = 10) const uint columnsPerLane = 4;
layout(constant_id = 11) const uint rowsPerLane = 4;
layout(constant_id = 12) const uint blockInner = 8; // inner dims that are staged at a time

const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u, wType = elementTypes >> typesW & 15u,
           firstType = elementTypes >> typesFirstAddend & 15u, secondType = elementTypes >> typesSecondAddend & 15u;
const bool hasFirst = (form & formFirstAddend) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };
layout(set = 0, binding = slotW, std430) readonly buffer W { uint wWords[]; };
layout(set = 0, binding = slotFirstAddend, std430) readonly buffer First { uint firstWords[]; };
#ifdef VKATTN_SECOND_ADDEND
layout(set = 0, binding = slotSecondAddend, std430) readonly buffer Second { uint secondWords[]; };
#endif

const uint lanes = columnLanes * rowLanes, tileColumns = columnLanes * columnsPerLane, tileRows = rowLanes * rowsPerLane;

shared float xTile[tileRows * blockInner];
shared float wTile[tileColumns * blockInner];

void main() {
    const uint lane = gl_LocalInvocationID.x, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    const uint tileColumn = gl_WorkGroupID.x * tileColumns, tileRow = gl_WorkGroupID.y * tileRows;
    const uint xAt = xBase + batch * xStrides.batch + group * xStrides.group;
    const uint wAt = wBase + batch * wStrides.batch + group * wStrides.group;
    const uint myColumn = lane % columnLanes, myRow = lane / columnLanes;

    float sums[rowsPerLane * columnsPerLane];
    [[unroll]] for (uint n = 0u; n < rowsPerLane * columnsPerLane; ++n) sums[n] = 0.0;
    [[dont_unroll]] for (uint block = 0u; block < inner; block += blockInner) {
        barrier();
        [[dont_unroll]] for (uint n = lane; n < tileRows * blockInner; n += lanes) {
            const uint row = min(tileRow + n / blockInner, rows - 1u), k = block + n % blockInner;
            xTile[n] = k < inner ? LOAD_ELEMENT(xWords, xType, xAt + row * xStrides.row + k * xStrides.column) : 0.0;
        }
        [[dont_unroll]] for (uint n = lane; n < tileColumns * blockInner; n += lanes) {
            const uint column = min(tileColumn + n / blockInner, columns - 1u), k = block + n % blockInner;
            wTile[n] = k < inner ? LOAD_ELEMENT(wWords, wType, wAt + column * wStrides.row + k * wStrides.column) : 0.0;
        }
        barrier();
        [[unroll]] for (uint k = 0u; k < blockInner; ++k) {
            float w[columnsPerLane];
            [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) w[c] = wTile[(myColumn + c * columnLanes) * blockInner + k];
            [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
                const float x = xTile[(myRow + r * rowLanes) * blockInner + k];
                [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c)
                    sums[r * columnsPerLane + c] = fma(x, w[c], sums[r * columnsPerLane + c]);
            }
        }
    }

    const uint yAt = yBase + batch * yStrides.batch + group * yStrides.group;
    const uint firstAt = firstBase + batch * firstStrides.batch + group * firstStrides.group;
#ifdef VKATTN_SECOND_ADDEND
    const uint secondAt = secondBase + batch * secondStrides.batch + group * secondStrides.group;
#endif
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
        const uint row = tileRow + myRow + r * rowLanes;
        [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
            const uint column = tileColumn + myColumn + c * columnLanes;
            if (row >= rows || column >= columns) continue;
            float value = sums[r * columnsPerLane + c];
            if (hasFirst) value += LOAD_ELEMENT(firstWords, firstType, firstAt + row * firstStrides.row + column * firstStrides.column);
#ifdef VKATTN_SECOND_ADDEND
            value += LOAD_ELEMENT(secondWords, secondType, secondAt + row * secondStrides.row + column * secondStrides.column);
#endif
            STORE_ELEMENT(yWords, yType, yAt + row * yStrides.row + column * yStrides.column, value)
        }
    }
}
