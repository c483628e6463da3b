#version 450
// Y = X W^T, plus up to two addends: the bias and the residual. A workgroup computes a tile of rows
// and columns of Y, over blocks of the inner dim that it stages in shared memory. A lane owns a block
// of the tile. Rows and columns past the end are computed on the last valid one and not stored: NaN
// in a row of X reaches that row of Y and no other.
#define VKATTN_STAGE_PROJECTION
#include "lib/platform.glsl"

layout(constant_id = 8) const uint columnLanes = 8;
layout(constant_id = 9) const uint rowLanes = 8;
layout(constant_id = 10) const uint columnsPerLane = 4;
layout(constant_id = 11) const uint rowsPerLane = 4;
layout(constant_id = 12) const uint blockInner = 8; // inner dims that are staged at a time

#include "operations/projection.glsl"

const uint lanes = columnLanes * rowLanes, tileColumns = columnLanes * columnsPerLane, tileRows = rowLanes * rowsPerLane;

shared float xTile[tileRows * blockInner];
shared float wTile[tileColumns * blockInner];

void main() {
    const uint lane = gl_LocalInvocationID.x, myColumn = lane % columnLanes, myRow = lane / columnLanes;
    const uint tileColumn = gl_WorkGroupID.x * tileColumns, tileRow = gl_WorkGroupID.y * tileRows;
    beginCase();

    float sums[rowsPerLane * columnsPerLane];
    [[unroll]] for (uint n = 0u; n < rowsPerLane * columnsPerLane; ++n) sums[n] = 0.0;
    [[dont_unroll]] for (uint block = 0u; block < innerEnd; block += blockInner) {
        barrier();
        [[dont_unroll]] for (uint n = lane; n < tileRows * blockInner; n += lanes)
            xTile[n] = loadX(tileRow + n / blockInner, block + n % blockInner);
        [[dont_unroll]] for (uint n = lane; n < tileColumns * blockInner; n += lanes)
            wTile[n] = loadW(tileColumn + n / blockInner, block + n % blockInner);
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
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
        [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c)
            finish(tileRow + myRow + r * rowLanes, tileColumn + myColumn + c * columnLanes, sums[r * columnsPerLane + c]);
}
