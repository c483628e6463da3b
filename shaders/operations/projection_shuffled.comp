#version 450
// Y = X W^T, plus up to two addends, for CPU devices with subgroups: lanes are rows, several rows a
// lane, and W is the same for all lanes. A lane loads one of the neighbouring inner dims of a row of
// W, and subgroup shuffles spread them: one load for as many multiply-adds as a subgroup has lanes,
// times the rows of a lane. A workgroup is one subgroup. Rows and columns past the end are computed
// on the last valid one and not stored.
#define VKATTN_STAGE_PROJECTION
#include "lib/platform.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 8) const uint lanes = 8; // of a subgroup
layout(constant_id = 9) const uint rowsPerLane = 4;
layout(constant_id = 10) const uint tileColumns = 16;
layout(constant_id = 11) const uint blockInner = 16; // inner dims at a time, a multiple of the lanes

#include "operations/projection.glsl"

void main() {
    const uint lane = gl_LocalInvocationID.x, tileRow = (gl_WorkGroupID.y * lanes + lane) * rowsPerLane;
    const uint tileColumn = gl_WorkGroupID.x * tileColumns;
    beginCase();

    float sums[rowsPerLane * tileColumns];
    [[unroll]] for (uint n = 0u; n < rowsPerLane * tileColumns; ++n) sums[n] = 0.0;
    [[dont_unroll]] for (uint block = 0u; block < innerEnd; block += blockInner) {
        float x[rowsPerLane * blockInner];
        [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
            [[unroll]] for (uint k = 0u; k < blockInner; ++k) x[r * blockInner + k] = loadX(tileRow + r, block + k);
        [[unroll]] for (uint c = 0u; c < tileColumns; ++c)
            [[unroll]] for (uint k = 0u; k < blockInner; k += lanes) {
                const float loaded = loadW(tileColumn + c, block + k + lane);
                [[unroll]] for (uint e = 0u; e < lanes; ++e) {
                    const float w = subgroupShuffle(loaded, e);
                    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
                        sums[r * tileColumns + c] = fma(x[r * blockInner + k + e], w, sums[r * tileColumns + c]);
                }
            }
    }
    [[dont_unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
        [[unroll]] for (uint c = 0u; c < tileColumns; ++c) {
            float value = sums[c];
            [[unroll]] for (uint other = 1u; other < rowsPerLane; ++other) value = other == r ? sums[other * tileColumns + c] : value;
            finish(tileRow + r, tileColumn + c, value);
        }
}
