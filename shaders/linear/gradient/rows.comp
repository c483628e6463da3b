#version 450
// Scans with the rows of the state in lanes, and a block of columns in registers (vkattn/linear_gradient.h). Of a
// chunk, with S before it, dS behind it, D(j, i) the decay from the write of token j to the read of row i, f that of
// a token, F(i) all from the beginning of the chunk up to i and E(j) all behind j:
//     on the way out    R_i = F(i) S dOut_i + sum over j <= i of D(j, i) k_j P_ij,  P_ij = dot(dOut_i, u_j)
//                       z_i likewise;  S = F S + sum over j of E(j) k_j u_j^T
//     on the way back   dk_j = E(j) dS u_j + sum over i >= j of D(j, i) q_i P_ij
//                       dg_t = E(t) (F(t) <dS, S> + sum over j < t of D(j, t) k_j dS u_j)
//                              + sum over i >= t of D(t, i) q_i (F(t) S dOut_i + sum over j < t of D(j, t) k_j P_ij)
//                       dS = F dS + sum over i of F(i) q_i dOut_i^T
// All of it holds for each row of the state alone. The delta rules take away k_t from R_t with dv_t: one more head,
// with -k as queries and dv as dOut, that reads before its own token writes.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/scan.glsl"

float keys[ownCount], factors[ownCount];
float z[ownedPerLane]; // or dz
ChunkPlace chunk;

uint readHeads() { return isDelta ? groupHeads() + 1u : groupHeads(); }
uint rowAt(uint v) { return min(ownedAt(v), rows - 1u); }

void loadKeys() {
    const uint keysAt = arrayAt(chunk, linearGradientKeys), factorsAt = arrayAt(chunk, linearGradientFactors);
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        const float shared_ = isGated ? workspaceFloat(factorsAt + s) : 1.0;
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            keys[s * ownedPerLane + v] = workspaceFloat(keysAt + s * rowPitch + rowAt(v));
            factors[s * ownedPerLane + v] = hasRowFactors ? workspaceFloat(factorsAt + s * rowPitch + rowAt(v)) : shared_;
        }
    }
}
// A row of an array [slot][row].
void storeSlot(uint at, uint v, float value) {
    if (ownedAt(v) < rows) store(at + ownedAt(v), value);
}
void decayState(uint v, float factor) {
    [[unroll]] for (uint x = 0u; x < perLane; ++x) state[x * ownedPerLane + v] *= factor;
}

void readHead(uint n) {
    const bool isStrict = n == groupHeads();
    const uint parts = (block * readHeads() + n) * chunkTokens * rowPitch;
    const uint reads = arrayAt(chunk, linearGradientReads) + parts, dRows = arrayAt(chunk, linearGradientDRows) + parts;
    const uint pairs = pairsAt(chunk, kindOfGiven() + n), normalizers = arrayAt(chunk, linearGradientNormalizers);
    multiplyState(arrayAt(chunk, linearGradientGiven) + n * chunkTokens * columnPitch, columnPitch);
    float written[ownCount], kept[ownedPerLane];
    [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) kept[v] = 1.0;
    [[unroll]] for (uint s = 0u; s < ownCount; ++s) written[s] = 0.0;
    [[unroll]] for (uint i = 0u; i < chunkTokens; ++i) {
        float sum[ownedPerLane], sumOfZ[ownedPerLane];
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            const float f = factors[i * ownedPerLane + v];
            kept[v] *= f;
            sum[v] = kept[v] * dots[i * ownedPerLane + v];
            sumOfZ[v] = kept[v] * z[v];
            [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
                if (j >= i) continue;
                written[j * ownedPerLane + v] *= f;
            }
            written[i * ownedPerLane + v] = keys[i * ownedPerLane + v];
        }
        [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
            if (j > i) continue;
            const float pair = workspaceFloat(pairs + i * chunkTokens + j);
            const bool adds = isFirstBlock && !(isStrict && j == i);
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
                sum[v] += adds ? written[j * ownedPerLane + v] * pair : 0.0;
                sumOfZ[v] += written[j * ownedPerLane + v];
            }
        }
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            if (needsStates) storeSlot(reads + i * rowPitch, v, dots[i * ownedPerLane + v]);
            storeSlot(dRows + i * rowPitch, v, sum[v]);
            if (isMapped && isFirstBlock && n == 0u) storeSlot(normalizers + i * rowPitch, v, sumOfZ[v]);
        }
    }
}

void goOut() {
    [[dont_unroll]] for (uint local = 0u; local < chunks; ++local) {
        chunk = chunkOf(local);
        loadKeys();
        if ((what & linearStatesOnly) == 0u) {
            if (needsStates) storeState(arrayAt(chunk, linearGradientStates), rowPitch, rows);
            [[dont_unroll]] for (uint n = 0u; n < readHeads(); ++n) readHead(n);
        }
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            float toEnd = 1.0, sum = 0.0;
            [[unroll]] for (uint r = 0u; r < chunkTokens; ++r) {
                const uint n = (chunkTokens - 1u - r) * ownedPerLane + v;
                coefficients[n] = keys[n] * toEnd;
                sum += coefficients[n];
                toEnd *= factors[n];
            }
            if (isGated || hasRowFactors) decayState(v, toEnd);
            z[v] = fma(toEnd, z[v], sum);
        }
        addToState(arrayAt(chunk, linearGradientValues), columnPitch, valueDim);
    }
}

float dKeys[ownCount], dDecays[ownCount];
void takeHeadBack(uint n) {
    const bool isStrict = n == groupHeads();
    const uint given = arrayAt(chunk, linearGradientGiven) + n * chunkTokens * columnPitch, pairs = pairsAt(chunk, kindOfGiven() + n);
    const uint queries = isStrict ? arrayAt(chunk, linearGradientKeys) : arrayAt(chunk, linearGradientRows) + n * chunkTokens * rowPitch;
    const uint parts = (block * readHeads() + n) * chunkTokens * rowPitch;
    const uint reads = arrayAt(chunk, linearGradientReads) + parts, dRows = arrayAt(chunk, linearGradientDRows) + parts;
    const uint inverses = arrayAt(chunk, linearGradientInverses) + n * chunkTokens,
               ofDenominators = arrayAt(chunk, linearGradientOfDenominators) + n * chunkTokens;
    [[unroll]] for (uint i = 0u; i < chunkTokens; ++i) {
        const float inverse = isMapped ? workspaceFloat(inverses + i) : 1.0, ofDenominator = isMapped ? workspaceFloat(ofDenominators + i) : 0.0;
        float given_[chunkTokens]; // P
        [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) given_[j] = j <= i ? workspaceFloat(pairs + i * chunkTokens + j) : 0.0;
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            float query = workspaceFloat(queries + i * rowPitch + rowAt(v));
            query = isStrict ? -query : query;
            float decayed[chunkTokens]; // the query from the row to the token that it is about
            [[unroll]] for (uint r = 0u; r < chunkTokens; ++r) {
                const uint j = chunkTokens - 1u - r;
                if (j > i) continue;
                decayed[j] = query;
                query *= factors[j * ownedPerLane + v];
            }
            coefficients[i * ownedPerLane + v] = query * inverse;
            z[v] += isMapped && isFirstBlock ? query * ofDenominator : 0.0;
            [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
                if (j > i) continue;
                const float pair = isMapped ? fma(inverse, given_[j], ofDenominator) : given_[j];
                dKeys[j * ownedPerLane + v] += isFirstBlock && !(isStrict && j == i) ? decayed[j] * pair : 0.0;
            }
            if (isStrict) dKeys[i * ownedPerLane + v] -= workspaceFloat(dRows + i * rowPitch + rowAt(v));
            if (needsStates) {
                float read = workspaceFloat(reads + i * rowPitch + rowAt(v));
                [[unroll]] for (uint t = 0u; t < chunkTokens; ++t) {
                    if (t > i) continue;
                    if (t > 0u) read += isFirstBlock ? keys[(t - 1u) * ownedPerLane + v] * given_[t - 1u] : 0.0;
                    read *= factors[t * ownedPerLane + v];
                    dDecays[t * ownedPerLane + v] = fma(decayed[t], read, dDecays[t * ownedPerLane + v]);
                }
            }
        }
    }
    addToState(given, columnPitch, valueDim);
}

void goBack() {
    [[dont_unroll]] for (uint turn = 0u; turn < chunks; ++turn) {
        chunk = chunkOf(chunks - 1u - turn);
        loadKeys();
        multiplyState(arrayAt(chunk, linearGradientValues), columnPitch);
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
            float toEnd[chunkTokens], all = 1.0;
            [[unroll]] for (uint r = 0u; r < chunkTokens; ++r) {
                const uint s = chunkTokens - 1u - r, n = s * ownedPerLane + v;
                toEnd[s] = all;
                all *= factors[n];
                if (isMapped && isFirstBlock) dots[n] += z[v];
                dKeys[n] = toEnd[s] * dots[n];
            }
            if (needsStates) {
                const uint before = arrayAt(chunk, linearGradientStates) + blockFirst * rowPitch + rowAt(v);
                float read = 0.0;
                [[unroll]] for (uint x = 0u; x < perLane; ++x)
                    read = fma(state[x * ownedPerLane + v], workspaceFloat(before + x * rowPitch), read);
                [[unroll]] for (uint t = 0u; t < chunkTokens; ++t) {
                    if (t > 0u) read = fma(keys[(t - 1u) * ownedPerLane + v], dots[(t - 1u) * ownedPerLane + v], read);
                    read *= factors[t * ownedPerLane + v];
                    dDecays[t * ownedPerLane + v] = toEnd[t] * read;
                }
            }
            if (isGated || hasRowFactors) decayState(v, all);
            z[v] *= all;
        }
        [[dont_unroll]] for (uint n = 0u; n < readHeads(); ++n) takeHeadBack(n);
        const uint parts = block * chunkTokens * rowPitch;
        const uint dKeysAt = arrayAt(chunk, linearGradientDKeys) + parts, dDecaysAt = arrayAt(chunk, linearGradientDDecays) + parts;
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
            [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) {
                storeSlot(dKeysAt + s * rowPitch, v, dKeys[s * ownedPerLane + v]);
                if (needsStates) storeSlot(dDecaysAt + s * rowPitch, v, dDecays[s * ownedPerLane + v]);
            }
    }
}

void main() {
    beginUnit();
    beginTile(rows);
    const uint from = statesAt() + stateFrom, to = statesAt() + stateTo;
    loadState(from, rowPitch, rows);
    [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) z[v] = isMapped ? workspaceFloat(normOfState(from, 0u) + rowAt(v)) : 0.0;
    if (isOutward)
        goOut();
    else
        goBack();
    storeState(to, rowPitch, rows);
    if (isMapped && isFirstBlock)
        [[unroll]] for (uint v = 0u; v < ownedPerLane; ++v) storeSlot(normOfState(to, 0u), v, z[v]);
}
