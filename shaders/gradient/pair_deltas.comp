#version 450
// Of a row of the workspace, in place: scores become the weights that dV is summed up with, w_ij P_ij,
// and dP becomes dS. A pair that is hidden stays hidden in both, and a pair that dropout drops is
// hidden to dV. A workgroup has a row, as in staged/softmax.comp. What the row adds to sums over pairs
// goes behind, to be summed up in order. Hooks of scores and probabilities are asked here, where the
// score before the hook, which the slope is of, and P are both at hand: scores come without them.
#define VKATTN_STAGE_PAIR_DELTAS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/pair.glsl"
#include "gradient/row_keys.glsl"
#include "lib/element.glsl"
#include "lib/math.glsl"
#include "lib/philox.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
const uint dWeightsType = elementTypes >> typesWeights & 15u;
const bool hasDWeights = (form & formDWeights) != 0u, drops = (form & formDrops) != 0u;

shared float laneDeltas[lanes];
shared float laneSlopes[lanes];
shared uint laneSeen[lanes];

uvec4 words; // the random words of four neighbouring keys
uint wordsOf = 0xffffffffu;
bool kept(uint key, uint query, uint plane) {
    if ((form & formDropsAll) != 0u) return false;
    if (!drops) return true;
    if (wordsOf != key >> 2) words = philox(uvec4(wordsOf = key >> 2, query, plane, dropoutOffset), uvec2(seedLow, seedHigh));
    return words[key & 3u] >= threshold;
}

// exp(s - maximum) / sum, judged by integer tests.
float probability(uint bits, uint maximumBits, uint inverseBits) {
    if (isNanBits(inverseBits) || isNanBits(bits) || bits == 0x7f800000u) return uintBitsToFloat(canonicalNanBits);
    return isFiniteBits(bits) ? expDifference(uintBitsToFloat(bits), uintBitsToFloat(maximumBits)) * uintBitsToFloat(inverseBits) : 0.0;
}
// The score that the softmax has taken, from the one in the workspace.
uint softmaxBits(Row row, uint key, uint bits) {
    if (!hooksScores || isNanBits(bits)) return bits;
    return scoreBits(hookedScore(row, int(key), uintBitsToFloat(bits)));
}

void main() {
    const uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.x, head = gl_WorkGroupID.z % heads;
    const uint rowOfChunk = gl_WorkGroupID.z * queries + row;
    const uint scoresAt = rowOfChunk * rowPitch, deltasAt = deltasBase + scoresAt, sumsAt = sumsBase + rowOfChunk * rowSumWords;
    beginSequence(gl_WorkGroupID.z / heads);
    if (row >= rowsOf(seq)) { // the whole workgroup
        if (lane < rowSumWords && (form & formDeltas) != 0u) workspace[sumsAt + lane] = 0u;
        return;
    }
    const Row pairs = rowOf(head, row);
    const uint begin = uint(pairs.begin), end = uint(max(pairs.end, 0));
    const uint query = queryFirst + row, plane = planeFirst + batch * planesOfBatch + head;
    const uint factsAt = factsBase + rowOfChunk * rowFactWords;
    const uint maximumBits = workspace[factsAt + factMaximum], inverseBits = workspace[factsAt + factInverseSum];
    const uint weightsAt = weightsBase + batch * weightsBatch + head * weightsHead + row * weightsToken;
    float delta = uintBitsToFloat(workspace[factsAt + factDelta]);

    if (hasDWeights) {
        float sum = 0.0;
        FOR_KEYS(j, begin, end)
            const uint bits = workspace[scoresAt + j];
            if (bits == hiddenBits) continue;
            float upstream = LOAD_ELEMENT(dWeights, dWeightsType, weightsAt + j * weightsKey);
            if ((form & formDropped) != 0u) upstream = kept(j, query, plane) ? upstream * keptFactor : 0.0;
            sum = fma(probability(softmaxBits(pairs, j, bits), maximumBits, inverseBits), upstream, sum);
        END_FOR_KEYS
        laneDeltas[lane] = sum;
        barrier();
        sum = 0.0;
        for (uint n = 0u; n < lanes; ++n) sum += laneDeltas[n];
        delta += sum;
        barrier();
    }

    float deltas = 0.0, slopes = 0.0;
    uint seen = 0u;
    FOR_KEYS(j, begin, end)
        const uint bits = workspace[scoresAt + j];
        if (bits == hiddenBits) {
            if ((form & formDeltas) != 0u) workspace[deltasAt + j] = hiddenBits;
            continue;
        }
        seen = 1u;
        const float p = probability(softmaxBits(pairs, j, bits), maximumBits, inverseBits);
        const bool keep = kept(j, query, plane);
        const float factor = weighsPairs ? hookFactor(pairs, int(j)) : 1.0;
        float weight = drops ? p * keptFactor : p;
        if (weighsPairs) weight *= factor;
        workspace[scoresAt + j] = keep ? scoreBits(weight) : hiddenBits;
        if ((form & formDeltas) == 0u) continue;
        float upstream = keep ? uintBitsToFloat(workspace[deltasAt + j]) : 0.0;
        if (drops) upstream *= keptFactor;
        if (weighsPairs && keep) upstream *= factor;
        if (hasDWeights) {
            const float given = LOAD_ELEMENT(dWeights, dWeightsType, weightsAt + j * weightsKey);
            if ((form & formDropped) == 0u)
                upstream += given;
            else if (keep)
                upstream = fma(keptFactor, given, upstream);
        }
        float dS = p * (upstream - delta);
        if (hooksScores) dS *= hookSlope(pairs, int(j), uintBitsToFloat(bits));
        workspace[deltasAt + j] = scoreBits(dS);
        deltas += dS;
        slopes = fma(-abs(float(int(j) - pairs.position)), dS, slopes);
    END_FOR_KEYS
    if ((form & formDeltas) == 0u) return;
    laneDeltas[lane] = deltas;
    laneSlopes[lane] = slopes;
    laneSeen[lane] = seen;
    barrier();
    if (lane != 0u) return;
    deltas = slopes = 0.0;
    for (uint n = 0u; n < lanes; ++n) {
        deltas += laneDeltas[n];
        slopes += laneSlopes[n];
        seen |= laneSeen[n];
    }
    workspace[sumsAt + rowSumDeltas] = floatBitsToUint(deltas);
    workspace[sumsAt + rowSumSlopes] = floatBitsToUint(slopes);
    uint sinkBits = 0u;
    if ((form & formGatherSinks) != 0u && sinks[sinksBase + head] != minusInfinityBits) {
        const uint bits = sinks[sinksBase + head];
        const float upstream = seen != 0u ? -delta : uintBitsToFloat(workspace[factsAt + factDLse]);
        sinkBits = scoreBits(probability(isFiniteBits(bits) ? bits : canonicalNanBits, maximumBits, inverseBits) * upstream);
    }
    workspace[sumsAt + rowSumSinks] = sinkBits;
}
