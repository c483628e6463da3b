#version 450
// One token of the recurrent rules (vkattn/linear.h), without chunks: with S the state before it,
//     u   = beta (v - R^T k), of the delta rules, otherwise v;   R = exp(g) S
//     out = scale (R^T q + (q . k) u)
//     S   = R + k u^T
// Of a decode loop the state is nearly all that is read and written. It goes by twice, once for its products with k
// and q and once to be changed, a block of rows at a time; where a lane has a single block, that stays in registers.
//
// Lanes are columns of the state, as in scan.comp; a column's rows may lie in several lanes, whose products are added
// up over shared memory in a fixed order.
//
// Defines: VKATTN_SUBGROUPS: neighbouring rows of k and q come by one load and subgroup shuffles.
#define VKATTN_STAGE_LINEAR
#include "lib/platform.glsl"

#include "linear/chunk.glsl"

#include "linear/lanes.glsl"

layout(constant_id = 14) const uint blockRows = 8; // divides rowsPerLane; with VKATTN_SUBGROUPS a multiple of shuffleLanes

layout(set = 0, binding = slotLinearDecay, std430) readonly buffer Decay { uint decay[]; };
layout(set = 0, binding = slotLinearStrength, std430) readonly buffer Strength { uint strength[]; };

const uint blockCount = blockRows * columnsPerLane, sumCount = 2u * columnsPerLane + 1u;
const bool isOneBlock = rowsPerLane == blockRows;
shared float partial[rowLanes > 1u ? sumCount * rowLanes * columnLanes : 1u];

float block[blockCount];  // of the state, decayed where rows decay by themselves
float keys[blockRows], factors[blockRows]; // of the block's rows
float sums[sumCount];     // of columns with k, and with q; then q . k

Place keyPlace, rowPlace, decayPlace, inPlace, outPlace;

// Selects, no branches: an element that is not there is read at the beginning of what is bound.
float keyAt(uint row) {
    const uint at = isRow(row) ? keyPlace.at + row * keyPlace.dim : 0u;
    const float value = LOAD_ELEMENT(k, kType, at);
    return isRow(row) ? value : 0.0;
}
float queryAt(uint row) {
    const uint at = isRow(row) ? rowPlace.at + row * rowPlace.dim : 0u;
    const float value = LOAD_ELEMENT(q, qType, at);
    return isRow(row) ? value : 0.0;
}
float factorAtRow(uint row) {
    const uint at = isRow(row) ? decayPlace.at + row * decayPlace.dim : 0u;
    const float value = LOAD_ELEMENT(decay, decayType, at);
    return isRow(row) ? exp(value) : 0.0;
}

#ifdef VKATTN_SUBGROUPS
const uint runRows = shuffleLanes;
#define ROW_OF_LANE(r) (r) + lane % shuffleLanes
#define OF_RUN(loaded, e) subgroupShuffle(loaded, e)
#else
const uint runRows = 1u;
#define ROW_OF_LANE(r) (r)
#define OF_RUN(loaded, e) (loaded)
#endif

void loadBlock(uint first) {
    [[unroll]] for (uint n = 0u; n < blockCount; ++n) {
        block[n] = 0.0;
        if (!hasStateIn) continue;
        const uint row = first + n / columnsPerLane, c = n % columnsPerLane;
        const bool there = isRow(row) && isColumn(c);
        const uint at = there ? inPlace.at + row * inPlace.token + columnOf(c) * inPlace.dim : 0u;
        const float value = uintBitsToFloat(stateIn[at]);
        block[n] = there ? value : 0.0;
    }
    [[unroll]] for (uint r = 0u; r < blockRows; r += runRows) {
        const float key = keyAt(ROW_OF_LANE(first + r));
        float factor = 1.0;
        if (decaysKeyDims) factor = factorAtRow(ROW_OF_LANE(first + r));
        [[unroll]] for (uint e = 0u; e < runRows; ++e) {
            keys[r + e] = OF_RUN(key, e);
            if (!decaysKeyDims) continue;
            const float own = OF_RUN(factor, e);
            [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) block[(r + e) * columnsPerLane + c] *= own;
        }
    }
}

// Without a state compilers know that it is 0, and take 0 for its product with what is no number, too.
float timesState(float x, float own, float sum) {
    if (hasStateIn) return fma(x, own, sum);
    return isFiniteBits(floatBitsToUint(x)) ? sum : uintBitsToFloat(canonicalNanBits);
}

void multiplyBlock(uint first) {
    [[unroll]] for (uint r = 0u; r < blockRows; r += runRows) {
        float loaded = 0.0;
        if (hasRows) loaded = queryAt(ROW_OF_LANE(first + r));
        [[unroll]] for (uint e = 0u; e < runRows; ++e) {
            const float key = keys[r + e], query = OF_RUN(loaded, e);
            [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
                const float own = block[(r + e) * columnsPerLane + c];
                if (isDelta) sums[c] = timesState(key, own, sums[c]);
                if (hasRows) sums[columnsPerLane + c] = timesState(query, own, sums[columnsPerLane + c]);
            }
            sums[2u * columnsPerLane] = fma(query, key, sums[2u * columnsPerLane]);
        }
    }
}

void storeBlock(uint first, float kept, const float written[columnsPerLane]) {
    [[unroll]] for (uint n = 0u; n < blockCount; ++n) {
        const uint row = first + n / columnsPerLane, c = n % columnsPerLane;
        const float value = fma(keys[n / columnsPerLane], written[c], isGated ? kept * block[n] : block[n]);
        const uint at = outPlace.at + row * outPlace.token + columnOf(c) * outPlace.dim;
        if (isRow(row) && isColumn(c)) stateOut[at] = floatBitsToUint(value);
    }
}

void main() {
    beginUnit();
    beginLanes();
    keyPlace = placeOf(linearK, kBase, stateHead, stateHeads);
    if (hasRows) rowPlace = placeOf(linearQ, qBase, stateHead, stateHeads);
    if (hasStateIn) inPlace = placeOf(linearStateIn, stateInBase, stateHead, stateHeads);
    if (isGated || decaysKeyDims) decayPlace = placeOf(linearDecay, decayBase, stateHead, stateHeads);
    float kept = 1.0, beta = 1.0;
    if (isGated) kept = exp(LOAD_ELEMENT(decay, decayType, decayPlace.at));
    if (isDelta) {
        const Place place = placeOf(linearStrength, strengthBase, stateHead, stateHeads);
        beta = LOAD_ELEMENT(strength, strengthType, place.at);
    }

    [[unroll]] for (uint n = 0u; n < sumCount; ++n) sums[n] = 0.0;
    if (isDelta || hasRows) {
        [[dont_unroll]] for (uint r = 0u; r < rowsPerLane; r += blockRows) {
            loadBlock(rowFirst + r);
            multiplyBlock(rowFirst + r);
        }
        if (rowLanes > 1u) {
            ADD_ROW_LANES(sums, sumCount)
        }
    }

    const Place valuePlace = placeOf(linearV, vBase, stateHead, stateHeads);
    float written[columnsPerLane]; // u
    [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
        const uint at = isColumn(c) ? valuePlace.at + columnOf(c) * valuePlace.dim : 0u;
        const float value = LOAD_ELEMENT(v, vType, at);
        written[c] = isColumn(c) ? value : 0.0;
        if (isDelta) written[c] = beta * (written[c] - kept * sums[c]);
    }
    if (hasRows) {
        const Place place = placeOf(linearOut, oBase, stateHead, stateHeads);
        [[unroll]] for (uint c = 0u; c < columnsPerLane; c += 2u) {
            const float first = scale * fma(sums[2u * columnsPerLane], written[c], kept * sums[columnsPerLane + c]);
            const float second = scale * fma(sums[2u * columnsPerLane], written[c + 1u], kept * sums[columnsPerLane + c + 1u]);
            const float firstScore = uintBitsToFloat(scoreBits(first)), secondScore = uintBitsToFloat(scoreBits(second));
            const uint at = place.at + columnOf(c) * place.dim;
            if (rowLane == 0u && isColumn(c + 1u)) {
                STORE_ELEMENT_PAIR(outWords, outType, at, place.dim, firstScore, secondScore)
            } else if (rowLane == 0u && isColumn(c)) {
                STORE_ELEMENT(outWords, outType, at, firstScore)
            }
        }
    }
    if (hasStateOut) {
        outPlace = placeOf(linearStateOut, stateOutBase, stateHead, stateHeads);
        [[dont_unroll]] for (uint r = 0u; r < rowsPerLane; r += blockRows) {
            if (!isOneBlock || !(isDelta || hasRows)) loadBlock(rowFirst + r);
            storeBlock(rowFirst + r, kept, written);
        }
    }
}
