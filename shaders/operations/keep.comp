#version 450
// The bits of what dropout keeps. An invocation takes a word: 32 columns, 8 blocks of random words.
#define VKATTN_STAGE_KEEP
#include "lib/platform.glsl"
#include "lib/philox.glsl"

layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };

void main() {
    const uint word = gl_GlobalInvocationID.x;
    if (word >= words) return;
    const uint row = gl_WorkGroupID.y, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    const uint column = 32u * (wordFirst + word), plane = planeFirst + batch * planesOfBatch + group;
    uint bits = 0u;
    [[dont_unroll]] for (uint block = 0u; block < 8u; ++block) {
        const uvec4 random = philox(uvec4(column / 4u + block, rowFirst + row, plane, offset), uvec2(seedLow, seedHigh));
        [[unroll]] for (uint n = 0u; n < 4u; ++n) bits |= (random[n] >= threshold ? 1u : 0u) << (4u * block + n);
    }
    const uint rest = columns - column; // at least 1
    if (rest < 32u) bits &= (1u << rest) - 1u;
    yWords[yBase + batch * yStrides.batch + group * yStrides.group + row * yStrides.row + word * yStrides.column] = bits & allBits;
}
