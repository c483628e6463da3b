#version 450
// dBias: dS summed over the extents that the bias broadcasts, in the order of batch, head and query.
// An invocation owns an element of dBias. Where the bias broadcasts keys, the sum of each row is taken
// in place of its pairs. Chunks that share an element follow each other: the sum waits in dBias itself
// where that is f32, and otherwise in the workspace.
#define VKATTN_STAGE_BIAS_SUMS
#include "lib/platform.glsl"

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "lib/element.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h

void main() {
    const uint key = gl_GlobalInvocationID.x, query = gl_WorkGroupID.y;
    const uint head = gl_WorkGroupID.z % ownHeads, batchOfBias = gl_WorkGroupID.z / ownHeads;
    if (key >= ownKeys) return;
    const uint outAt = oBase + batchOfBias * oBatch + head * oHead + query * oQuery + key * oKey;
    const uint carryAt = (form & formCarried) != 0u
                             ? carryBase + batchOfBias * carryBatch + head * carryHead + query * carryQuery + key
                             : 0u;
    float sum = 0.0;
    if ((flags & flagFirstRows) == 0u)
        sum = uintBitsToFloat((form & formCarried) != 0u ? carry[carryAt] : outWords[outAt]);
    const bool allBatches = (broadcasts & 1u) != 0u, allHeads = (broadcasts & 2u) != 0u, allQueries = (broadcasts & 4u) != 0u;
    const bool allKeys = (broadcasts & 8u) != 0u;
    const uint batchEnd = allBatches ? batches : batchOfBias + 1u, headEnd = allHeads ? heads : head + 1u;
    for (uint b = allBatches ? 0u : batchOfBias; b < batchEnd; ++b) {
        beginSequence(b);
        const uint rowCount = rowsOf(seq);
        const uint rowBegin = allQueries ? 0u : query, rowEnd = min(allQueries ? rowCount : query + 1u, rowCount);
        for (uint h = allHeads ? 0u : head; h < headEnd; ++h)
            for (uint row = rowBegin; row < rowEnd; ++row) {
                const uint rowOfChunk = (b * heads + h) * queries + row;
                const uint bits = allKeys ? workspace[sumsBase + rowOfChunk * rowSumWords + rowSumDeltas]
                                                       : workspace[rowOfChunk * rowPitch + keyFirst + key];
                if (bits != hiddenBits) sum += uintBitsToFloat(bits);
            }
    }
    if ((flags & flagLastRows) != 0u) {
        STORE_ELEMENT(outWords, outType, outAt, factor * sum)
    } else if ((form & formCarried) != 0u) {
        carry[carryAt] = floatBitsToUint(sum);
    } else {
        outWords[outAt] = floatBitsToUint(sum);
    }
}
