#version 450
// Scans with the columns of the state in lanes, and a block of rows in registers: the gradients of values, on the way
// back, and of the delta rules what tokens write, on the way out. Decays between slots are in their products (pairs);
// where rows of the state have factors of their own, in the vectors too (decays.comp). The delta rules solve a
// triangular system by substitution, and so have all rows in registers:
//     on the way out    e_j = v_j - F(j) S^T k_j - sum over i < j of K_ji u_i,  u_j = beta_j e_j
//     on the way back   du_j = E(j) dS^T k_j + sum over i >= j of A_ij dOut_i - sum over i > j of K_ij dv_i,  dv_j = beta_j du_j
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/scan.glsl"

ChunkPlace chunk;
float toEnd[chunkTokens], fromStart[chunkTokens]; // of decays that all rows share
float sums[ownCount];

uint columnAt(uint v) { return min(ownedAt(v), valueDim - 1u); }
void storeSlot(uint at, uint v, float value) {
    if (ownedAt(v) < valueDim) store(at + ownedAt(v), value);
}

void loadDecays() {
    const uint at = arrayAt(chunk, linearGradientFactors);
    float factors[chunkTokens];
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) factors[s] = isGated ? workspaceFloat(at + s) : 1.0;
    float all = 1.0;
    [[unroll]] for (uint r = 0u; r < chunkTokens; ++r) {
        const uint s = chunkTokens - 1u - r;
        toEnd[s] = all;
        all *= factors[s];
    }
    all = 1.0;
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        all *= factors[s];
        fromStart[s] = all;
    }
}
void decayState() {
    if (!isGated && !hasRowFactors) return;
    const uint at = arrayAt(chunk, linearGradientChunkFactors) + blockFirst;
    [[unroll]] for (uint x = 0u; x < perLane; ++x) {
        const float factor = hasRowFactors ? workspaceFloat(at + x) : fromStart[chunkTokens - 1u];
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) state[x * ownedPerLane + v] *= factor;
    }
}
uint keysFromStart() {
    return hasRowFactors ? arrayAt(chunk, linearGradientRowsFromStart) + groupHeads() * chunkTokens * rowPitch : arrayAt(chunk, linearGradientKeys);
}
uint keysToEnd() { return hasRowFactors ? arrayAt(chunk, linearGradientKeysToEnd) : arrayAt(chunk, linearGradientKeys); }

void goOut() {
    [[dont_unroll]] for (uint local = 0u; local < chunks; ++local) {
        chunk = chunkOf(local);
        loadDecays();
        multiplyState(keysFromStart(), rowPitch);
        const uint values = arrayAt(chunk, linearGradientValues), differences = arrayAt(chunk, linearGradientDifferences),
                   strengths = arrayAt(chunk, linearGradientStrengths), pairs = pairsAt(chunk, groupHeads());
        [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
            const float beta = workspaceFloat(strengths + j);
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                sums[j * ownedPerLane + v] =
                    workspaceFloat(values + j * columnPitch + columnAt(v)) - fromStart[j] * dots[j * ownedPerLane + v];
            [[unroll]] for (uint i = 0u; i < chunkTokens; ++i) {
                if (i >= j) continue;
                const float pair = workspaceFloat(pairs + j * chunkTokens + i);
                [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                    sums[j * ownedPerLane + v] = fma(-pair, sums[i * ownedPerLane + v], sums[j * ownedPerLane + v]);
            }
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
                storeSlot(differences + j * columnPitch, v, sums[j * ownedPerLane + v]);
                sums[j * ownedPerLane + v] = hasToken(chunk, j) ? sums[j * ownedPerLane + v] * beta : 0.0;
            }
        }
        [[unroll]] for (uint j = 0u; j < chunkTokens; ++j)
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
                storeSlot(values + j * columnPitch, v, sums[j * ownedPerLane + v]);
                coefficients[j * ownedPerLane + v] = toEnd[j] * sums[j * ownedPerLane + v];
            }
        decayState();
        addToState(keysToEnd(), rowPitch, rows);
    }
}

void takeHeadBack(uint n) {
    const uint given = arrayAt(chunk, linearGradientGiven) + n * chunkTokens * columnPitch, pairs = pairsAt(chunk, n);
    const uint inverses = arrayAt(chunk, linearGradientInverses) + n * chunkTokens;
    const uint queries = arrayAt(chunk, hasRowFactors ? linearGradientRowsFromStart : linearGradientRows) + n * chunkTokens * rowPitch;
    [[unroll]] for (uint i = 0u; i < chunkTokens; ++i) {
        const float inverse = isMapped ? workspaceFloat(inverses + i) : 1.0;
        float own[ownedPerLane];
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            own[v] = workspaceFloat(given + i * columnPitch + columnAt(v)) * inverse;
            coefficients[i * ownedPerLane + v] = fromStart[i] * own[v];
        }
        [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
            if (j > i) continue;
            const float pair = workspaceFloat(pairs + i * chunkTokens + j);
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) sums[j * ownedPerLane + v] += isFirstBlock ? pair * own[v] : 0.0;
        }
    }
    addToState(queries, rowPitch, rows);
}

// From du to dv, and what dv takes from the state.
void solveBack() {
    const uint strengths = arrayAt(chunk, linearGradientStrengths), pairs = pairsAt(chunk, groupHeads()),
               differences = arrayAt(chunk, linearGradientDifferences), dStrengths = arrayAt(chunk, linearGradientDStrengths),
               dValues = arrayAt(chunk, linearGradientGiven) + groupHeads() * chunkTokens * columnPitch;
    [[unroll]] for (uint r = 0u; r < chunkTokens; ++r) {
        const uint j = chunkTokens - 1u - r;
        [[unroll]] for (uint i = 0u; i < chunkTokens; ++i) {
            if (i <= j) continue;
            const float pair = workspaceFloat(pairs + i * chunkTokens + j);
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v)
                sums[j * ownedPerLane + v] = fma(-pair, sums[i * ownedPerLane + v], sums[j * ownedPerLane + v]);
        }
        const float beta = workspaceFloat(strengths + j);
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            const uint n = j * ownedPerLane + v;
            storeSlot(dStrengths + j * columnPitch, v, sums[n] * workspaceFloat(differences + j * columnPitch + columnAt(v)));
            sums[n] = hasToken(chunk, j) ? beta * sums[n] : 0.0;
            storeSlot(dValues + j * columnPitch, v, sums[n]);
            coefficients[n] = -fromStart[j] * sums[n];
        }
    }
    addToState(keysFromStart(), rowPitch, rows);
}

void goBack() {
    [[dont_unroll]] for (uint turn = 0u; turn < chunks; ++turn) {
        chunk = chunkOf(chunks - 1u - turn);
        loadDecays();
        multiplyState(keysToEnd(), rowPitch);
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) sums[s * ownedPerLane + v] = toEnd[s] * dots[s * ownedPerLane + v];
        decayState();
        [[dont_unroll]] for (uint n = 0u; n < groupHeads(); ++n) takeHeadBack(n);
        if (isDelta) {
            solveBack();
            continue;
        }
        const uint dValues = arrayAt(chunk, linearGradientDValues) + block * chunkTokens * columnPitch;
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) storeSlot(dValues + s * columnPitch, v, sums[s * ownedPerLane + v]);
    }
}

void main() {
    beginUnit();
    beginTile(valueDim);
    const uint from = columnsOfState(statesAt() + stateFrom), to = columnsOfState(statesAt() + stateTo);
    loadState(from, columnPitch, valueDim);
    if (isDelta && isOutward)
        goOut();
    else
        goBack();
    storeState(to, columnPitch, valueDim);
}
