#version 450
// Stage 2 of the staged path: stable softmax of one row of the workspace per workgroup, in place;
// the log-sum-exp or the row's statistics, and the weights where asked for. Maximum and sum run over visible keys and the
// head's sink, the column that sinks.comp or setup/prior.comp put behind the row. A visible NaN or +infinity, or
// nothing but -infinity, makes the whole row NaN, found by integer tests: no rule rests on how a
// driver compares NaN or takes exp of it (SwiftShader's exp(NaN) is infinity). At the end dropout:
// dropped pairs become hidden ones, whose values the next stage leaves out, in rows that are not NaN.
#define VKATTN_STAGE_SOFTMAX
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "lib/element.glsl"
#include "lib/math.glsl"
#include "attention/dropout.glsl"

// A lane owns pairs of neighbouring keys, the same ones in every pass, so that no lane reads what
// another wrote and two halves of the weights fill a word: pair p holds the keys 2p - skew and 2p +
// 1 - skew and belongs to lane p % lanes. Several keys an iteration: Mesa 22's software driver
// silently leaves a shader after 65,535 iterations of all its loops together, and the planner
// (maxKeysPerLane) counts on 4.
const uint keysPerIteration = 4u;
#define FOR_KEYS(j, from, to)                                                                                                              \
    for (uint pair_ = (from + skew) / 2u / lanes * lanes + lane; pair_ * 2u < to + skew; pair_ += lanes * (keysPerIteration / 2u))         \
        [[unroll]] for (uint n_ = 0; n_ < keysPerIteration; ++n_) {                                                                        \
            const uint j = (pair_ + n_ / 2u * lanes) * 2u + n_ % 2u - skew; /* wraps below 0, and is then past the end */                  \
            if (j < from || j >= to) continue;
#define END_FOR_KEYS }

shared float laneMaximum[lanes];
shared float laneSum[lanes];
shared uint laneSeen[lanes];

const uint weightsType = elementTypes >> typesWeights & 15u;
const uint seenFinite = 1u, seenMinusInfinity = 2u, seenBad = 4u;

void main() {
    const uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.x;
    const uint head = gl_WorkGroupID.z % heads;
    const uint workspaceRow = (gl_WorkGroupID.z * queries + row) * rowPitch;
    beginSequence(gl_WorkGroupID.z / heads);
    if (row >= rowsOf(seq)) return; // the whole workgroup
    const uint weightsRow = wBase + batch * wBatch + head * wHead + row * wToken;
    // Pairs start where words of the weights do. Which keys a lane sums up, and so the last bits,
    // depends on it.
    const uint skew = (flags & (flagWeights | flagFixedOrder)) == flagWeights ? weightsRow & 1u : 0u;
    const uint begin = uint(keyBegin(row)), end = uint(max(keyEnd(row), 0));
    const uint sinkBits = (flags & flagSinks) != 0u ? workspace[workspaceRow + rowPitch - 1u] : minusInfinityBits;

    float maximum = lowest;
    uint seen = 0u;
    FOR_KEYS(j, begin, end)
        const uint bits = workspace[workspaceRow + j];
        if (bits == hiddenBits) continue;
        if (isFiniteBits(bits)) {
            seen |= seenFinite;
            maximum = max(maximum, uintBitsToFloat(bits));
        } else {
            seen |= bits == minusInfinityBits ? seenMinusInfinity : seenBad;
        }
    END_FOR_KEYS
    laneMaximum[lane] = maximum;
    laneSeen[lane] = seen;
    barrier();
    for (uint n = 0; n < lanes; ++n) {
        maximum = max(maximum, laneMaximum[n]);
        seen |= laneSeen[n];
    }
    const bool nothingVisible = seen == 0u;
    if (isFiniteBits(sinkBits)) {
        seen |= seenFinite;
        maximum = max(maximum, uintBitsToFloat(sinkBits));
    } else if (sinkBits != minusInfinityBits) {
        seen |= seenBad;
    }
    const bool bad = (seen & seenBad) != 0u || seen == seenMinusInfinity;

    float sum = 0.0;
    FOR_KEYS(j, begin, end)
        const uint bits = workspace[workspaceRow + j];
        if (bits == hiddenBits) continue;
        const float e = isFiniteBits(bits) ? expDifference(uintBitsToFloat(bits), maximum) : 0.0;
        workspace[workspaceRow + j] = floatBitsToUint(e);
        sum += e;
    END_FOR_KEYS
    laneSum[lane] = sum;
    barrier();
    sum = isFiniteBits(sinkBits) ? expDifference(uintBitsToFloat(sinkBits), maximum) : 0.0;
    for (uint n = 0; n < lanes; ++n) sum += laneSum[n];

    if (lane == 0u && (flags & flagLse) != 0u) {
        const bool statistics = (flags & flagRowStatistics) != 0u;
        const uint at = lseBase + batch * lseBatch + head * lseHead + (seq.queryStart + row) * lseToken;
        const float first = statistics ? maximum : maximum + log(sum);
        lse[at] = nothingVisible ? sinkBits : bad ? canonicalNanBits : floatBitsToUint(first);
        const float sinkAlone = sinkBits == minusInfinityBits ? 0.0 : 1.0; // the sum of a row that sees nothing
        if (statistics) lse[at + lseEntry] = bad && !nothingVisible ? canonicalNanBits : floatBitsToUint(nothingVisible ? sinkAlone : sum);
    }
    // For the share of what the row goes on from. Every lane has read the column before the last barrier.
    if (lane == 0u && (flags & flagGoesOn) != 0u)
        workspace[workspaceRow + rowPitch - 1u] = nothingVisible ? sinkBits : bad ? canonicalNanBits : floatBitsToUint(maximum + log(sum));
    if ((flags & flagWeights) == 0u && drops) {
        // Pairs as in FOR_KEYS, and four keys that are drawn together have two of them.
        for (uint first = begin / 2u / lanes * lanes + lane; first * 2u < end; first += lanes * (keysPerIteration / 2u))
            [[unroll]] for (uint n = 0; n < keysPerIteration / 2u; ++n) {
                const uint pair = first + n * lanes;
                const uint kept = keptOfBlock(head, row, pair / 2u) >> (pair % 2u * 2u);
                [[unroll]] for (uint c = 0; c < 2u; ++c) {
                    const uint j = pair * 2u + c;
                    if (j < begin || j >= end) continue;
                    const uint bits = workspace[workspaceRow + j];
                    if (bits == hiddenBits) continue;
                    const float weight = uintBitsToFloat(bits) / sum * dropoutFactor;
                    workspace[workspaceRow + j] = bad ? canonicalNanBits : (kept >> c & 1u) == 0u ? hiddenBits : floatBitsToUint(weight);
                }
            }
        return;
    }
    if ((flags & flagWeights) == 0u) {
        FOR_KEYS(j, begin, end)
            const uint bits = workspace[workspaceRow + j];
            if (bits == hiddenBits) continue;
            workspace[workspaceRow + j] = bad ? canonicalNanBits : floatBitsToUint(uintBitsToFloat(bits) / sum);
        END_FOR_KEYS
        return;
    }
    // The same, over the whole row: weights are 0 where hidden. What lies past a sequence of a
    // ragged batch is nobody's.
    const uint weightsEnd = (flags & flagRagged) != 0u ? seq.keyCount : keyTokens;
    for (uint first = lane; first * 2u < weightsEnd + skew; first += lanes * (keysPerIteration / 2u)) {
        [[unroll]] for (uint n = 0; n < keysPerIteration / 2u; ++n) {
            // Wraps below 0, and is then past the end.
            const uint j = (first + n * lanes) * 2u - skew;
            float w[2];
            [[unroll]] for (uint c = 0; c < 2u; ++c) {
                const uint at = j + c;
                w[c] = 0.0;
                if (at < begin || at >= end) continue;
                const uint bits = workspace[workspaceRow + at];
                if (bits == hiddenBits) continue;
                w[c] = bad ? uintBitsToFloat(canonicalNanBits) : uintBitsToFloat(bits) / sum;
                if (drops) {
                    const bool kept = bad || (keptOfBlock(head, row, at / 4u) >> (at % 4u) & 1u) != 0u;
                    const float after = bad ? w[c] : kept ? w[c] * dropoutFactor : 0.0;
                    workspace[workspaceRow + at] = kept ? scoreBits(after) : hiddenBits;
                    w[c] = (flags & flagWeightsDropped) != 0u ? after : w[c];
                    continue;
                }
                workspace[workspaceRow + at] = scoreBits(w[c]);
            }
            if (j < weightsEnd && j + 1u < weightsEnd) {
                STORE_ELEMENT_PAIR(weights, weightsType, weightsRow + j * wKey, wKey, w[0], w[1])
            } else if (j < weightsEnd) {
                STORE_ELEMENT(weights, weightsType, weightsRow + j * wKey, w[0])
            } else if (j + 1u < weightsEnd) {
                STORE_ELEMENT(weights, weightsType, weightsRow + (j + 1u) * wKey, w[1])
            }
        }
    }
}
