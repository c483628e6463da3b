#version 450
// Writes each head's attention sink behind its score rows, for the softmax: its own four bindings
// have no room for the sinks.
#define VKATTN_STAGE_SINKS
#include "lib/platform.glsl"

#include "attention/operands.glsl"

void main() {
    const uint head = gl_WorkGroupID.z % heads, row = gl_GlobalInvocationID.x;
    if (row >= queries) return;
    workspace[(gl_WorkGroupID.z * queries + row + 1u) * rowPitch - 1u] = sinks[base + head];
}
