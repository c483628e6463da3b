#version 450
// Y = X W^T of few rows, plus up to two addends: memory-bound, W is read once. Lanes are inner dims,
// so that loads coalesce; a lane sums up its own inner dims for all rows and a few columns, and a
// tree over the lanes adds them up.
#define VKATTN_STAGE_PROJECTION
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory
layout(constant_id = 9) const uint tileRows = 4;
layout(constant_id = 10) const uint tileColumns = 4;

#include "operations/projection.glsl"

const uint cells = tileRows * tileColumns;
shared float partial[cells * lanes];

void main() {
    const uint lane = gl_LocalInvocationID.x, tileColumn = gl_WorkGroupID.x * tileColumns, tileRow = gl_WorkGroupID.y * tileRows;
    beginCase();

    float sums[cells];
    [[unroll]] for (uint n = 0u; n < cells; ++n) sums[n] = 0.0;
    [[dont_unroll]] for (uint block = 0u; block < innerEnd; block += lanes) {
        float x[tileRows];
        [[unroll]] for (uint r = 0u; r < tileRows; ++r) x[r] = loadX(tileRow + r, block + lane);
        [[unroll]] for (uint c = 0u; c < tileColumns; ++c) {
            const float w = loadW(tileColumn + c, block + lane);
            [[unroll]] for (uint r = 0u; r < tileRows; ++r) sums[r * tileColumns + c] = fma(x[r], w, sums[r * tileColumns + c]);
        }
    }
    [[unroll]] for (uint n = 0u; n < cells; ++n) partial[n * lanes + lane] = sums[n];
    barrier();
    [[dont_unroll]] for (uint reach = lanes / 2u; reach > 0u; reach /= 2u) {
        [[dont_unroll]] for (uint n = lane; n < cells * reach; n += lanes) {
            const uint at = n / reach * lanes + n % reach;
            partial[at] += partial[at + reach];
        }
        barrier();
    }
    [[dont_unroll]] for (uint n = lane; n < cells; n += lanes) finish(tileRow + n / tileColumns, tileColumn + n % tileColumns, partial[n * lanes]);
}
