#version 450
// Stage between scores and softmax of the staged path: one term of pairs (attention/pair.glsl)
// applied to the scores in the workspace. A dispatch has one term, so that it stays within the four
// storage buffers that Vulkan 1.0 guarantees. With termProbabilityHook the stage is between softmax and
// values, and the workspace has probabilities; with termRowHook the stage takes the softmax' place.
#define VKATTN_STAGE_PAIRS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint keysPerLane = 4;

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/pair.glsl"

void main() {
    const uint head = gl_WorkGroupID.z % heads, query = gl_WorkGroupID.y;
    beginSequence(gl_WorkGroupID.z / heads);
    if (query >= rowsOf(seq)) return;
    const Row row = rowOf(head, query);
    const uint workspaceRow = (gl_WorkGroupID.z * queries + query) * rowPitch + keyFirst;
    // Keys past it are hidden already, and there may be nothing to read.
    const uint keyCount = keysOf(seq);
    uint n = gl_WorkGroupID.x * gl_WorkGroupSize.x * keysPerLane + gl_LocalInvocationID.x;
    for (uint c = 0; c < keysPerLane && n < keyCount; ++c, n += gl_WorkGroupSize.x) {
        const int key = int(keyFirst + n);
        float added = 0.0;
        if (!termsShow(row, key, added)) {
            workspace[workspaceRow + n] = hiddenBits;
        } else if (anyScoreChanged) {
            const uint bits = workspace[workspaceRow + n];
            if (bits == hiddenBits) continue;
            float changed = uintBitsToFloat(bits);
            bool undefined = isNanBits(bits) || termsUndefined(row, key, added);
            if (sumless) {
                undefined = !isFiniteBits(bits) && bits != minusInfinityBits;
                changed = rowWeight(changed);
            }
            if (weighsPairs) changed *= hookFactor(row, key);
            if (!sumless && !weighsPairs) changed = withTerms(row, key, changed, added);
            workspace[workspaceRow + n] = undefined ? canonicalNanBits : scoreBits(changed);
        }
    }
}
