#version 450
// Counters move on: Y = min(X + by, limit). An invocation takes a word.
#define VKATTN_STAGE_ADVANCE
#include "lib/platform.glsl"

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };

void main() {
    const uint word = gl_GlobalInvocationID.x;
    if (word >= words) return;
    const uint x = xWords[xBase + word * xStride];
    // The sum is made only where it stays below the limit, because it may pass 2^32.
    yWords[yBase + word * yStride] = x < limit && by < limit - x ? x + by : limit;
}
