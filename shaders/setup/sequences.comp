#version 450
// Set-up of ragged batches: from the arrays of sequence starts, which are data and never trusted, a
// table of sequences that lie inside the tensors. An entry counts as the largest up to and
// including it, clamped to the total: a prefix maximum. One workgroup; each lane takes a run of
// neighbouring sequences.
#define VKATTN_STAGE_SEQUENCES
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory

#include "attention/operands.glsl"

shared uint laneMaximum[2u * lanes];

// The planner's maxSequences counts on twice a lane's run and one loop over the lanes.
void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint run = (sequences + lanes - 1u) / lanes;
    const uint first = min(lane * run, sequences), last = min(first + run, sequences);

    uint query = 0u, key = 0u;
    for (uint s = first; s < last; ++s) {
        query = max(query, cuQ[cuQBase + s]);
        key = max(key, cuK[cuKBase + s]);
    }
    laneMaximum[lane] = query;
    laneMaximum[lanes + lane] = key;
    barrier();
    query = key = 0u;
    for (uint n = 0; n < lane; ++n) {
        query = max(query, laneMaximum[n]);
        key = max(key, laneMaximum[lanes + n]);
    }
    if (first == last) return;
    query = min(max(query, cuQ[cuQBase + first]), totalQueries);
    key = min(max(key, cuK[cuKBase + first]), totalKeys);
    for (uint s = first; s < last; ++s) {
        const uint queryEnd = max(query, min(cuQ[cuQBase + s + 1u], totalQueries));
        const uint keyEnd = max(key, min(cuK[cuKBase + s + 1u], totalKeys));
        const uint at = ruleHeaderWords + s * sequenceWords;
        table[at] = query;
        table[at + 1u] = min(queryEnd - query, maxQueries);
        table[at + 2u] = key;
        table[at + 3u] = min(keyEnd - key, maxKeys);
        query = queryEnd;
        key = keyEnd;
    }
}
