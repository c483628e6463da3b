#version 450
// Set-up of plans with options: writes what is constant over the plan to the workspace, as numbers
// that 128 bytes of push constants have no room for, and gathers the small arrays over heads behind
// them.
#define VKATTN_STAGE_ENVIRONMENT
#include "lib/platform.glsl"

#include "attention/operands.glsl"

void main() {
    const uint n = gl_GlobalInvocationID.x, first = firstAndCount & 0xffffu, count = firstAndCount >> 16;
    if (n == 0u)
        [[unroll]] for (uint word = 0u; word < environmentWordsAtOnce; ++word)
            if (word < count) environment[first + word] = given[word];
    if (n < heads) headFacts[n] = HeadFacts(sinks[sinksBase + n], slopes[slopesBase + n]);
}
