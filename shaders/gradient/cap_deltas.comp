#version 450
// Of a row of the workspace, in place: dS becomes dz, the gradient of the scaled score before softcap;
// what the row adds to dScale and dSoftcap goes behind. The scores' place has dot(q_i, k_j), computed
// once more. A workgroup has a row. sech^2 x comes from one exponential: 1 - tanh^2 x cancels where
// the cap holds a score back.
#define VKATTN_STAGE_CAP_DELTAS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size; sizes shared memory

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "gradient/row_keys.glsl"
#include "lib/math.glsl"

shared float laneScale[lanes];
shared float laneSoftcap[lanes];

void main() {
    const uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.x;
    const uint rowOfChunk = gl_WorkGroupID.z * queries + row;
    const uint dotsAt = rowOfChunk * rowPitch, deltasAt = deltasBase + dotsAt, sumsAt = sumsBase + rowOfChunk * rowSumWords;
    beginSequence(gl_WorkGroupID.z / heads);
    if (row >= rowsOf(seq)) return; // the whole workgroup
    const uint begin = uint(keyBegin(row)), end = uint(max(keyEnd(row), 0));
    float ofScale = 0.0, ofSoftcap = 0.0;
    FOR_KEYS(j, begin, end)
        const uint bits = workspace[deltasAt + j];
        if (bits == hiddenBits) continue;
        const float dot_ = uintBitsToFloat(workspace[dotsAt + j]);
        float dz = uintBitsToFloat(bits);
        if (softcap > 0.0) {
            const float x = scale * dot_ / softcap;
            const float e = isNanBits(floatBitsToUint(x)) ? x : exp(-2.0 * min(abs(x), 100.0));
            const float slope = 4.0 * e / ((1.0 + e) * (1.0 + e)); // of tanh
            ofSoftcap = fma(dz, stableTanh(x) - x * slope, ofSoftcap);
            dz *= slope;
        }
        ofScale = fma(dz, dot_, ofScale);
        workspace[deltasAt + j] = scoreBits(dz);
    END_FOR_KEYS
    laneScale[lane] = ofScale;
    laneSoftcap[lane] = ofSoftcap;
    barrier();
    if (lane != 0u) return;
    ofScale = ofSoftcap = 0.0;
    for (uint n = 0u; n < lanes; ++n) {
        ofScale += laneScale[n];
        ofSoftcap += laneSoftcap[n];
    }
    workspace[sumsAt + rowSumScale] = floatBitsToUint(ofScale);
    workspace[sumsAt + rowSumSoftcap] = floatBitsToUint(ofSoftcap);
}
