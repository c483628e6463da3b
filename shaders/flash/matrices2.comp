#version 450
// matrices.comp with the softmax in the matrices (VK_NV_cooperative_matrix2, at subgroup scope): a
// matrix has all keys of a tile, and scores never go through shared memory. Of a tile:
//     S = Q K^T; scale, options and hiding by functions of each element, which know the element's
//         row and key
//     row maxima and sums by reductions along rows, whose results have the row's value in every
//         column: factors of O by construction
//     P = exp(S - maximum) becomes a factor by conversion; O = O * factors + P V
// Hidden pairs have a weight of 0, and 0 * NaN is NaN: flash/tiles.glsl stages no such value where
// a pair may be hidden, and addNonFinite adds them to the rows that see them; only then weights go
// to shared memory.
//
// Rows of a subgroup are rowBlocks matrices of matrixM rows, the fewest that a driver takes: Mesa
// 26.2's lowering gives wrong results for reductions along rows of a matrix that has several of its
// blocks in both directions (found 2026-11-22: 16 x 16 of 8 x 8).
//
// Matrices of workgroup scope and loads through tensor layouts (caps:
// VKATTN_MATRIX2_WORKGROUP_SCOPE, VKATTN_MATRIX2_TENSOR_LOADS) are not used: no driver that was at
// hand runs them. They would replace staging and the types below; functions of elements would stay.
#include "flash/tiles.glsl"

#define Scores coopmat<float, gl_ScopeSubgroup, matrixM, tileKeys, gl_MatrixUseAccumulator>
#define Keys coopmat<Input, gl_ScopeSubgroup, matrixK, tileKeys, gl_MatrixUseB>
#define Weights coopmat<Input, gl_ScopeSubgroup, matrixM, tileKeys, gl_MatrixUseA>
#define Values coopmat<Input, gl_ScopeSubgroup, tileKeys, matrixN, gl_MatrixUseB>

// Of rows, the same in every column. What is judged is a class, no NaN that a reduction might lose.
Sums maxima[rowBlocks], weightSums[rowBlocks], judgements[rowBlocks];
const float sawNothing = 0.0, sawSome = 1.0, sawBad = 2.0;

// Pieces at the end of a row in shared memory: from endAt on the facts of the row; bits of the tile's
// keys that the row sees, and that dropout keeps.
const uint seenAt = endAt + rowFactPieces, keptAt = seenAt + 1u;

int tileFirst; // what functions of elements know of the tile
bool tileTested;

void storeRow(uint rowPlace, Row row) {
    const RowFacts facts = packRow(row);
    [[unroll]] for (uint n = 0u; n < rowFactPieces; ++n) scoreTile[rowPlace + endAt + n] = facts.pieces[n];
}
Row loadRow(uint rowPlace) {
    RowFacts facts;
    [[unroll]] for (uint n = 0u; n < rowFactPieces; ++n) facts.pieces[n] = scoreTile[rowPlace + endAt + n];
    return unpackRow(facts);
}

uint rowPlaceOf(uint row) { return scoresAt + row * scorePitch; }
bool hasBit(uint place, uint key) { return (scoreTile[place][key / 32u] >> (key % 32u) & 1u) != 0u; }
bool sees(uint rowPlace, uint key) { return !tileTested || hasBit(rowPlace + seenAt, key); }
bool keeps(uint rowPlace, uint key) { return !drops || hasBit(rowPlace + keptAt, key); }

void beginRows() {
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {
        maxima[b] = Sums(lowest);
        weightSums[b] = Sums(0.0);
        judgements[b] = Sums(sawNothing);
    }
    if (part() == 0u)
        [[unroll]] for (uint r = 0u; r < laneRows; ++r) storeRow(rowPlaceOf(tileRowOf(r)), rowAt(rowOfLane[r]));
    subgroupSync();
}

// Bits of the keys of a row's lanes into those of the row in shared memory: bitsOf is of the r-th row
// and the lane's g-th group of eight keys, the first of which is `key`.
#define SHARE_BITS(place, bitsOf)                                                                                                          \
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {                                                                                      \
        uvec4 bits = uvec4(0u);                                                                                                            \
        [[unroll]] for (uint g = 0u; g < groupsOfLane; ++g) {                                                                              \
            const uint key = keyOf(g * 8u);                                                                                                \
            bits[key / 32u] |= (bitsOf) << (key % 32u);                                                                                    \
        }                                                                                                                                  \
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)                                                                                    \
            if (rowParts >> bit > 1u) bits |= subgroupShuffleXor(bits, subgroupRows << bit);                                               \
        if (part() == 0u) scoreTile[rowPlaceOf(tileRowOf(r)) + (place)] = bits;                                                            \
    }
void shareBits() {
    if (tileTested) SHARE_BITS(seenAt, seen[r * seenWords + g / 4u] >> (g % 4u * 8u) & 0xffu)
    if (drops) SHARE_BITS(keptAt, keptOfEight(rowOfLane[r], uint(tileFirst) + key))
    subgroupSync();
}

// Of elements; `from`: the matrix' first row.
float scoreOf(const in uint row, const in uint key, const in float product, const in uint from) {
    const uint rowPlace = rowPlaceOf(from + row);
    const Row facts = loadRow(rowPlace);
    const float score = pairScore(facts, tileFirst + int(key), product, pairBias(facts, tileFirst + int(key)));
    return sees(rowPlace, key) ? score : lowest;
}
float judgementOf(const in uint row, const in uint key, const in float score, const in uint from) {
    return !sees(rowPlaceOf(from + row), key) ? sawNothing : worstOf(score) < 0x7f800000u ? sawSome : sawBad;
}
float weightOf(const in uint row, const in uint key, const in float score, const in uint from, const in float top) {
    return sees(rowPlaceOf(from + row), key) ? expDifference(score, top) : 0.0;
}
float keptOf(const in uint row, const in uint key, const in float weight, const in uint from) {
    return keeps(rowPlaceOf(from + row), key) ? weight : 0.0;
}
#ifdef VKATTN_BF16
// A conversion of a matrix to bf16 may round towards zero (NVIDIA 580.159, found 2026-11-26): it gets
// what needs no rounding.
float roundedOf(const in uint row, const in uint key, const in float weight) { return bfloat16ToFloat(floatToBfloat16(weight)); }
#endif
float factorOf(const in uint row, const in uint column, const in float old, const in float top) { return expDifference(old, top); }
float largerOf(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }
float larger(const in float a, const in float b) { return max(a, b); }
float sum(const in float a, const in float b) { return a + b; }

void multiplyDims(uint d, inout Scores scores[rowBlocks]) {
    Keys keys;
    coopMatLoad(keys, keyTile, d * (matrixK / 8u), keyPitch, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) scores[b] = coopMatMulAdd(query[b * dimBlocks + d], keys, scores[b]);
}

// Scores become weights; `factors`: what the outputs of the rows are rescaled by.
void takeWeights(uint b, inout Scores scores, out Sums factors) {
    const uint from = b * matrixM;
    coopMatPerElementNV(scores, scores, scoreOf, from);

    Sums tops, ofTile;
    coopMatReduceNV(tops, scores, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(tops, tops, largerOf, maxima[b]);
    coopMatPerElementNV(factors, maxima[b], factorOf, tops);
    maxima[b] = tops;

    Scores other;
    coopMatPerElementNV(other, scores, judgementOf, from);
    coopMatReduceNV(ofTile, other, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(judgements[b], judgements[b], largerOf, ofTile);

    coopMatReduceNV(other, tops, gl_CooperativeMatrixReduceRowNV, larger); // as wide as the scores
    coopMatPerElementNV(scores, scores, weightOf, from, other);
    coopMatReduceNV(ofTile, scores, gl_CooperativeMatrixReduceRowNV, sum);
    weightSums[b] = weightSums[b] * factors + ofTile; // of dropped pairs too
    if (drops) coopMatPerElementNV(scores, scores, keptOf, from);
}

void addValues(uint n, const Weights weights[rowBlocks], const Sums factors[rowBlocks]) {
    Values values;
    coopMatLoad(values, valueTile, n * (matrixN / 8u), valuePitch, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        outputs[b * valueBlocks + n] = coopMatMulAdd(weights[b], values, outputs[b * valueBlocks + n] * factors[b]);
}

void takeTile(int tile, int end, const bool tested, uint parity) {
    tileFirst = tile;
    tileTested = tested;
    if (tested || drops) shareBits();
    Scores scores[rowBlocks];
    Sums factors[rowBlocks];
    Weights weights[rowBlocks];
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) scores[b] = Scores(0.0);
    EACH_BLOCK(d, dimBlocks, multiplyDims(d, scores))
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {
        takeWeights(b, scores[b], factors[b]);
        scores[b] *= weightScale;
#ifdef VKATTN_BF16
        coopMatPerElementNV(scores[b], scores[b], roundedOf);
#endif
        weights[b] = Weights(scores[b]);
    }
    EACH_BLOCK(n, valueBlocks, addValues(n, weights, factors))
    if (nonFinite[parity] != 0u) {
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
            coopMatStore(weights[b], scoreTile, rowPlaceOf(b * matrixM), scorePitch, gl_CooperativeMatrixLayoutRowMajor);
        addNonFinite(tile, end);
    }
    subgroupSync(); // what is known of rows was read
}

#define TO_LANES(matrices, assign)                                                                                                         \
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)                                                                                       \
        coopMatStore(matrices[b], scoreTile, rowPlaceOf(b * matrixM), scorePitch, gl_CooperativeMatrixLayoutRowMajor);                        \
    subgroupSync();                                                                                                                        \
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {                                                                                      \
        const float value = uintBitsToFloat(scoreTile[rowPlaceOf(tileRowOf(r))].x);                                                           \
        assign;                                                                                                                            \
    }                                                                                                                                      \
    subgroupSync();

void endRows() {
    TO_LANES(maxima, maximum[r] = value)
    // storeRows adds up what lanes have
    TO_LANES(weightSums, weightSum[r] = part() == 0u ? value : 0.0)
    TO_LANES(judgements, worst[r] = value == sawNothing ? 0u : value == sawSome ? 1u : 0x7f800000u)
}
