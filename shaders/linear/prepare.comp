#version 450
// What the scan needs to know of a chunk, whatever the state is: the products of its keys and rows with its
// keys, decayed from one token to the other; decays as factors; and, where a decay or a running maximum belongs
// to a row of the state, keys and query rows with these worked in. A lane has a slot of a chunk; the slots of a
// chunk are neighbours of a subgroup.
//
// Decays between two tokens are the exponential of a sum of at most a chunk's numbers: no quotient of decays
// can overflow, and a row knows nothing of later tokens (docs/linear.md).
//
// Defines: VKATTN_SUBGROUPS: slots shuffle what they have loaded, otherwise each loads it.
#define VKATTN_STAGE_LINEAR
#include "lib/platform.glsl"

#include "linear/chunk.glsl"

layout(set = 0, binding = slotLinearQ, std430) readonly buffer Q { uint q[]; };
layout(set = 0, binding = slotLinearK, std430) readonly buffer K { uint k[]; };
layout(set = 0, binding = slotLinearDecay, std430) readonly buffer Decay { uint decay[]; };
layout(set = 0, binding = slotLinearStrength, std430) readonly buffer Strength { uint strength[]; };

uint slot;
bool hasOwn;     // the slot has a token
ChunkPlace chunk;
Place keyPlace, rowPlace, decayPlace;
// Of features, in the workspace: where the chunk's keys begin, and the slot's row of the head at hand; z, and the maxima.
uint keyMapAt, rowMapAt, normsAt;

float keyOf(uint s, uint d) {
    if (!hasToken(chunk, s)) return hasMaximum ? uintBitsToFloat(minusInfinityBits) : 0.0;
    if (isStored) return workspaceFloat(keyMapAt + s * rowPitch + d);
    const float key = LOAD_ELEMENT(k, kType, keyPlace.at + uint(chunk.first + int(s)) * keyPlace.token + d * keyPlace.dim);
    return featureOf(key);
}
float decayOf(uint s, uint d) {
    if (!hasToken(chunk, s)) return 0.0;
    return LOAD_ELEMENT(decay, decayType, decayPlace.at + uint(chunk.first + int(s)) * decayPlace.token + d * decayPlace.dim);
}
float queryOf(uint n, uint d) {
    if (!hasRow(chunk, slot)) return 0.0;
    if (isStored) return workspaceFloat(rowMapAt + d);
    const float query = LOAD_ELEMENT(q, qType, rowPlace.at + uint(rowOf(chunk, slot)) * rowPlace.token + d * rowPlace.dim);
    return featureOf(query);
}
// What another slot of the chunk has.
#ifdef VKATTN_SUBGROUPS
// Software drivers take a shuffle from a lane that they know apart from others.
const bool wholeSubgroups = (form & formLinearWholeSubgroups) != 0u;
#define LANE_OF_SLOT(s) (wholeSubgroups ? (s) : gl_SubgroupInvocationID - slot + (s))
#define OF_SLOT(own, s, LOAD_) subgroupShuffle(own, LANE_OF_SLOT(s))
#else
#define OF_SLOT(own, s, LOAD_) (LOAD_)
#endif

// z and the maxima before the chunk.
float normOf(uint which, uint d) { return workspaceFloat(normsAt + which * rowPitch + d); }

void store(uint word, float value) { workspace[word] = floatBitsToUint(value); }

// Sums of the decays behind token s up to the slot's own, for s of all slots before it; and of all.
float sums[chunkTokens];
float sumFromStart, sumToEnd;
void addDecays() {
    const float own = decayOf(slot, 0u);
    float sum = 0.0;
    sumToEnd = 0.0;
    [[unroll]] for (uint n = 0u; n < chunkTokens; ++n) {
        const uint s = chunkTokens - 1u - n;
        const float each = OF_SLOT(own, s, decayOf(s, 0u));
        sums[s] = sum;
        sum += s <= slot ? each : 0.0;
        sumToEnd += s > slot ? each : 0.0;
    }
    sumFromStart = sum;
}

// Products of the slot's key, or of its row, with the keys of the slots up to it. What later tokens hold does not
// matter: it is computed, and left.
float pairs[chunkTokens];
void multiplyPairs(const bool ofRows, uint n) {
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) pairs[s] = 0.0;
    [[dont_unroll]] for (uint d = 0u; d < rows; ++d) {
        const float key = keyOf(slot, d), left = ofRows ? queryOf(n, d) : key;
        if (decaysKeyDims) {
            const float own = decayOf(slot, d);
            float sum = 0.0;
            [[unroll]] for (uint r = 0u; r < chunkTokens; ++r) {
                const uint s = chunkTokens - 1u - r;
                const float other = OF_SLOT(key, s, keyOf(s, d)), each = OF_SLOT(own, s, decayOf(s, d));
                pairs[s] += s <= slot ? left * other * exp(sum) : 0.0;
                sum += s <= slot ? each : 0.0;
            }
        } else {
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) pairs[s] = fma(left, OF_SLOT(key, s, keyOf(s, d)), pairs[s]);
        }
    }
}

// The running maximum of feature d up to the slot's token; up to the last one.
float maximumAt(uint d, float key, uint last) {
    float top = normOf(1u, d);
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        const float other = OF_SLOT(key, s, keyOf(s, d));
        top = s <= last ? largerOf(top, other) : top;
    }
    return top;
}
// Of exponents: relative to the largest term of the row. Returns that.
float multiplyExponents(uint n) {
    float most = uintBitsToFloat(minusInfinityBits);
    [[dont_unroll]] for (uint d = 0u; d < rows; ++d) {
        const float key = keyOf(slot, d);
        most = max(most, queryOf(n, d) + maximumAt(d, key, slot));
    }
    most = floatBitsToUint(most) == minusInfinityBits ? 0.0 : most;
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) pairs[s] = 0.0;
    [[dont_unroll]] for (uint d = 0u; d < rows; ++d) {
        const float key = keyOf(slot, d), own = queryOf(n, d) - most;
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            const float other = OF_SLOT(key, s, keyOf(s, d));
            pairs[s] += s <= slot ? exp(own + other) : 0.0;
        }
    }
    return most;
}
// An exponent of a row as a factor of the state before the chunk; a feature without keys gives nothing.
float factorOf(uint n, uint d, float most) {
    const float maximum = normOf(1u, d);
    return floatBitsToUint(maximum) == minusInfinityBits ? 0.0 : exp(queryOf(n, d) - most + maximum);
}

// Rows of a head of out: their products with keys, and what their product with the state is multiplied by.
void prepareRows(uint n) {
    float factor = scale, most = 0.0;
    if (hasMaximum)
        most = multiplyExponents(n);
    else if (!isReading)
        multiplyPairs(true, n);
    if (isReading)
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) pairs[s] = 0.0;
    if (isMapped) {
        float sum = 0.0;
        [[dont_unroll]] for (uint d = 0u; d < rows; ++d)
            sum += (hasMaximum ? factorOf(n, d, most) : queryOf(n, d)) * normOf(0u, d);
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) sum += s <= slot ? pairs[s] : 0.0;
        factor = sum == 0.0 ? 0.0 : 1.0 / sum; // without a sum the row is 0
    }
    if (!hasRow(chunk, slot)) return;
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        const float decayed = isGated ? pairs[s] * exp(sums[s]) : pairs[s];
        if (s <= slot) store(rowPairAt(chunk, n, slot, s), decayed * factor);
    }
    store(rowFactorAt(chunk, n, slot), isGated && !isReading ? factor * exp(sumFromStart) : factor);
    if (!inArrays) return;
    const uint at = arrayAt(chunk, linearRowsAt, n, slot);
    [[dont_unroll]] for (uint d = 0u; d < rows; ++d) {
        if (hasMaximum) {
            store(at + d, factorOf(n, d, most));
        } else if (isReading) {
            store(at + d, queryOf(n, d));
        } else {
            float total = 0.0;
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) total += s <= slot ? decayOf(s, d) : 0.0;
            store(at + d, queryOf(n, d) * exp(total));
        }
    }
}

// Keys as the state after the chunk has them, keys as the delta rules read with them, and what rows of the state are
// multiplied by.
void prepareKeys() {
    [[dont_unroll]] for (uint d = 0u; d < rows; ++d) {
        const float key = keyOf(slot, d);
        float toEnd = key, fromStart = 0.0, total = 0.0;
        if (hasMaximum) {
            const float before = normOf(1u, d), after = maximumAt(d, key, chunkTokens);
            toEnd = hasOwn ? relativeTo(after, key) : 0.0;
            total = floatBitsToUint(before) == minusInfinityBits ? 0.0 : exp(before - after);
        } else {
            const float own = decayOf(slot, d);
            float before = 0.0, behind = 0.0;
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
                const float each = OF_SLOT(own, s, decayOf(s, d));
                before += s <= slot ? each : 0.0;
                behind += s > slot ? each : 0.0;
                total += each;
            }
            fromStart = key * exp(before);
            toEnd = key * exp(behind);
            total = exp(total);
        }
        store(keysToEnd(chunk, slot) + d, toEnd);
        if (isDelta) store(arrayAt(chunk, linearKeysAt, 0u, slot) + d, fromStart);
        if (slot == 0u) store(chunk.at + factorAt + d, total);
    }
}

void main() {
    beginUnit();
    const uint lane = gl_LocalInvocationID.x, local = gl_WorkGroupID.x * (gl_WorkGroupSize.x / chunkTokens) + lane / chunkTokens;
    slot = lane % chunkTokens;
    // Past the end: the last one again, of which nothing is stored.
    chunk = chunkOf(min(local, chunks - 1u));
    const bool mine = local < chunks;
    hasOwn = hasToken(chunk, slot);
    // Once, and not for each row of the state: stores to the workspace lie between.
    if (isStored) keyMapAt = arrayAt(chunk, linearKeyMapAt, 0u, 0u);
    if (isMapped) normsAt = isReading ? stateNormAt(0u) : normAt(chunk, 0u);
    if (!isStored) keyPlace = placeOf(linearK, kBase, stateHead, stateHeads);
    if (isGated || decaysKeyDims) decayPlace = placeOf(linearDecay, decayBase, stateHead, stateHeads);
    if (isGated && !isReading) addDecays();
    if (!isReading) {
        float beta = 0.0;
        if (isDelta && hasOwn) {
            const Place place = placeOf(linearStrength, strengthBase, stateHead, stateHeads);
            beta = LOAD_ELEMENT(strength, strengthType, place.at + uint(chunk.first + int(slot)) * place.token);
        }
        if (isDelta) {
            multiplyPairs(false, 0u);
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
                if (mine && s < slot) store(keyPairAt(chunk, slot, s), beta * (isGated ? pairs[s] * exp(sums[s]) : pairs[s]));
            if (mine) store(strengthAt(chunk, slot), beta);
        }
        if (mine && isGated) {
            store(fromStartAt(chunk, slot), exp(sumFromStart));
            store(toEndAt(chunk, slot), exp(sumToEnd));
        }
        if (mine && inArrays) prepareKeys();
    }
    if (hasRows)
        [[dont_unroll]] for (uint n = 0u; n < groupHeads(); ++n) {
            if (isStored)
                rowMapAt = arrayAt(chunk, linearRowMapAt, n, slot);
            else
                rowPlace = placeOf(linearQ, qBase, headOfState(n), heads);
            if (mine) prepareRows(n);
        }
}
