#version 450
// Fused attention with both products on matrix units (VK_KHR_cooperative_matrix; Dao et al. 2023,
// FlashAttention-2, whose subgroups own rows as here). A workgroup's subgroups have matrixM *
// rowBlocks query rows each and share tiles of K and V in shared memory. Of a tile:
//     S = Q K^T into shared memory, where each lane knows which row and key it holds: the
//         extension does not say which lane of a matrix holds which element, and has no operation
//         along rows
//     softmax in registers; P into the same memory, rounded to the type of the inputs
//     O = O + P V, in registers over all tiles. When a row's maximum has grown by more than
//         `slack`, O is multiplied by a matrix that has the row's factor in each of its columns,
//         loaded from shared memory. Mostly the maximum has not grown so (Zadouri et al. 2026,
//         FlashAttention-4). Row statistics are those of the maximum itself: then nothing is
//         passed over.
// Hidden pairs, and those that dropout drops, have a weight of -0, which adds nothing. But -0 * NaN
// is NaN: where a tile is partly hidden, values that are not finite are staged as 0 and added by
// themselves to the rows that see them (addNonFinite).
//
// Defines: flash/tiles.glsl.
#include "flash/tiles.glsl"

float slack() { return (flags & flagRowStatistics) != 0u ? 0.0 : 2.77258872; } // 4 ln 2

#define MatrixA coopmat<Input, gl_ScopeSubgroup, matrixM, matrixK, gl_MatrixUseA>
#define MatrixB coopmat<Input, gl_ScopeSubgroup, matrixK, matrixN, gl_MatrixUseB>

void multiplyDims(uint n, uint d, inout Sums scores[rowBlocks]) {
    MatrixB keys;
    coopMatLoad(keys, keyTile, n * matrixN * keyPitch + d * (matrixK / 8u), keyPitch, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) scores[b] = coopMatMulAdd(query[b * dimBlocks + d], keys, scores[b]);
}
void multiplyKeys(uint n) {
    Sums scores[rowBlocks];
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) scores[b] = Sums(0.0);
    EACH_BLOCK(d, dimBlocks, multiplyDims(n, d, scores))
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        coopMatStore(scores[b], scoreTile, scoresAt + b * matrixM * scorePitch + n * (matrixN / 4u), scorePitch,
                     gl_CooperativeMatrixLayoutRowMajor);
}

// Scores in shared memory become weights there. True where rows need their outputs rescaled: their
// factors then lie behind the weights.
bool takeWeights(int tile, const bool tested) {
    float scores[laneRows * keysOfLane];
    float factors[laneRows];
    bool grown = false;
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        const uint scoresOfRow = scoresAt + tileRowOf(r) * scorePitch;
        const Row row = rowAt(rowOfLane[r]);
        float top = lowest;
        [[unroll]] for (uint n = 0u; n < keysOfLane; n += 4u) {
            const uvec4 bits = scoreTile[scoresOfRow + keyOf(n) / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                const int key = tile + int(keyOf(n) + e);
                const bool visible = !tested || (seen[r * seenWords + (n + e) / 32u] >> ((n + e) % 32u) & 1u) != 0u;
                const float score = pairScore(row, key, uintBitsToFloat(bits[e]), pairBias(row, key));
                worst[r] = max(worst[r], visible ? worstOf(score) : 0u);
                top = max(top, visible ? score : lowest);
                scores[r * keysOfLane + n + e] = score;
            }
        }
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (rowParts >> bit > 1u) top = max(top, subgroupShuffleXor(top, subgroupRows << bit));
        // The sum of a score in the millions and the slack would be rounded up, and let weights pass
        // the largest f16.
        const bool grows = top - maximum[r] > slack();
        factors[r] = grows ? expDifference(maximum[r], top) : 1.0;
        grown = grown || grows;
        maximum[r] = grows ? top : maximum[r];
        weightSum[r] *= factors[r];
    }
    subgroupSync(); // weights take the place of scores
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        const uint weightsOfRow = scoresAt + tileRowOf(r) * scorePitch;
        [[unroll]] for (uint n = 0u; n < keysOfLane; n += 8u) {
            float weights[8];
            uint signs[8];
            uint kept = 0xffu;
            if (drops) kept = keptOfEight(rowOfLane[r], uint(tile) + keyOf(n));
            [[unroll]] for (uint e = 0u; e < 8u; ++e) {
                const bool visible = !tested || (seen[r * seenWords + (n + e) / 32u] >> ((n + e) % 32u) & 1u) != 0u;
                const float weight = expDifference(scores[r * keysOfLane + n + e], maximum[r]);
                weights[e] = visible ? weight : 0.0;
                signs[e] = visible ? 0u : hiddenWeight;
                weightSum[r] += weights[e]; // of dropped pairs too
                if (drops && (kept >> e & 1u) == 0u) weights[e] = 0.0, signs[e] = hiddenWeight;
            }
            uvec4 bits;
            [[unroll]] for (uint e = 0u; e < 8u; e += 2u)
                bits[e / 2u] = packInputs(weights[e] * weightScale, weights[e + 1u] * weightScale) | signs[e] | signs[e + 1u] << 16;
            scoreTile[weightsOfRow + keyOf(n) / 8u] = bits;
        }
    }
    const bool rescales = subgroupAny(grown);
    if (rescales)
        [[unroll]] for (uint r = 0u; r < laneRows; ++r)
            for (uint n = part(); n < matrixN / 4u; n += rowParts)
                scoreTile[scoresAt + tileRowOf(r) * scorePitch + wideAt + n] = uvec4(floatBitsToUint(factors[r]));
    subgroupSync();
    return rescales;
}

void rescaleOutputs() {
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {
        Sums factors;
        LOAD_WIDE(factors, b);
        EACH_BLOCK(n, valueBlocks, outputs[b * valueBlocks + n] = outputs[b * valueBlocks + n] * factors)
    }
}

void addValueBlock(uint c, uint n, const MatrixA weights[rowBlocks]) {
    MatrixB values;
    coopMatLoad(values, valueTile, c * matrixK * valuePitch + n * (matrixN / 8u), valuePitch, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        outputs[b * valueBlocks + n] = coopMatMulAdd(weights[b], values, outputs[b * valueBlocks + n]);
}
void addValues(uint c) {
    MatrixA weights[rowBlocks];
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        coopMatLoad(weights[b], scoreTile, scoresAt + b * matrixM * scorePitch + c * (matrixK / 8u), scorePitch,
                    gl_CooperativeMatrixLayoutRowMajor);
    EACH_BLOCK(n, valueBlocks, addValueBlock(c, n, weights))
}

void takeTile(int tile, int end, const bool tested, uint parity) {
    EACH_BLOCK(n, keyBlocks, multiplyKeys(n))
    subgroupSync();
    if (takeWeights(tile, tested)) rescaleOutputs();
    EACH_BLOCK(c, weightBlocks, addValues(c))
    if (nonFinite[parity] != 0u) addNonFinite(tile, end);
    subgroupSync(); // weights were read
}

void beginRows() {}
void endRows() {}
