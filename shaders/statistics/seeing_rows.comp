#version 450
// The rows of each head that see a key: the inverse of their number goes to the workspace, 0 where there is
// none. A workgroup has a head, and a lane every `lanes`-th row.
#define VKATTN_STAGE_SEEING_ROWS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory

#include "attention/operands.glsl"

shared uint laneCount[lanes];

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint at = scalesBase + gl_WorkGroupID.z * rowScaleWords * (rows + 1u);
    uint count = 0u;
    for (uint row = lane; row < rows; row += lanes) count += workspace[at + rowScaleWords * (row + 1u) + 1u] != 0u ? 1u : 0u;
    laneCount[lane] = count;
    barrier();
    if (lane != 0u) return;
    count = 0u;
    for (uint n = 0u; n < lanes; ++n) count += laneCount[n];
    workspace[at] = count != 0u ? floatBitsToUint(1.0 / float(count)) : 0u;
}
