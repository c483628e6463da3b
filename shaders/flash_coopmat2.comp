#version 450
// flash_coopmat.comp with the softmax in the matrices (VK_NV_cooperative_matrix2, at subgroup scope): one matrix has all rows of a subgroup
// and all keys of a tile, scores never go through shared memory. Of a tile:
//     S = Q K^T; scale, options and what is hidden by functions of each element, which know its row and key
//     row maxima and sums by reductions along rows, whose results have the row's value in every column: factors of O by construction
//     P = exp(S - maximum) becomes a factor by conversion; O = O * factors + P V
// Hidden pairs have a weight of 0, and 0 * NaN is NaN: lib/flash_matrices.glsl stages no such value where a pair may be hidden, and
// addNonFinite adds them to the rows that see them; only then weights go to shared memory.
//
// Matrices of workgroup scope and loads through tensor layouts (caps: VKATTN_MATRIX2_WORKGROUP_SCOPE, VKATTN_MATRIX2_TENSOR_LOADS) are not
// used: no driver that was at hand runs them. They would replace staging and the types below; functions of elements would stay.
#include "lib/flash_matrices.glsl"

#define Scores coopmat<float, gl_ScopeSubgroup, matrixRows, tileKeys, gl_MatrixUseAccumulator>
#define Keys coopmat<Input, gl_ScopeSubgroup, matrixK, tileKeys, gl_MatrixUseB>
#define Weights coopmat<Input, gl_ScopeSubgroup, matrixRows, tileKeys, gl_MatrixUseA>
#define Values coopmat<Input, gl_ScopeSubgroup, tileKeys, matrixN, gl_MatrixUseB>

// Of rows, the same in every column. What is judged is a class, no NaN that a reduction might lose.
Sums maxima, weightSums, judgements;
const float sawNothing = 0.0, sawSome = 1.0, sawBad = 2.0;

// Pieces at the end of a row in shared memory: endAt: head, query, slope, aligned position; seenAt: bits of the tile's keys that it sees.
const uint seenAt = endAt + 1u;

int tileFirst; // what functions of elements know of the tile
bool tileTested;

uint rowAtOf(uint row) { return scoresAt + row * scorePitch; }
bool sees(uint rowAt, uint key) { return !tileTested || (scoreTile[rowAt + seenAt][key / 32u] >> (key % 32u) & 1u) != 0u; }

void beginRows() {
    maxima = Sums(lowest);
    weightSums = Sums(0.0);
    judgements = Sums(sawNothing);
    if (part() == 0u)
        [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
            const uint row = rowOfLane[r];
            scoreTile[rowAtOf(tileRowOf(r)) + endAt] =
                uvec4(headOf(row), queryOf(row), floatBitsToUint(slopeOf(row)), uint(alignedPosition(queryOf(row), seq)));
        }
    subgroupSync();
}

// `seen` of a row's lanes into its bits in shared memory.
void shareSeen() {
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        uvec4 bits = uvec4(0u);
        [[unroll]] for (uint g = 0u; g < groupsOfLane; ++g) {
            const uint key = keyOf(g * 8u);
            bits[key / 32u] |= (seen[r * seenWords + g / 4u] >> (g % 4u * 8u) & 0xffu) << (key % 32u);
        }
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (rowParts >> bit > 1u) bits |= subgroupShuffleXor(bits, subgroupRows << bit);
        if (part() == 0u) scoreTile[rowAtOf(tileRowOf(r)) + seenAt] = bits;
    }
    subgroupSync();
}

float scoreOf(const in uint row, const in uint key, const in float product) {
    float score = scale * product;
    if (overlays != 0u) {
        const uvec4 known = scoreTile[rowAtOf(row) + endAt];
        float added = 0.0;
        if ((overlays & overlayBias) != 0u) added = biasOf(known.x, known.y, min(tileFirst + int(key), keyLast));
        score = withOverlays(score, added, uintBitsToFloat(known.z), tileFirst + int(key) - int(known.w));
    }
    return sees(rowAtOf(row), key) ? score : lowest;
}
float judgementOf(const in uint row, const in uint key, const in float score) {
    return !sees(rowAtOf(row), key) ? sawNothing : worstOf(score) < 0x7f800000u ? sawSome : sawBad;
}
// exp(-200) is 0 in fp32: the bound only keeps differences finite.
float weightOf(const in uint row, const in uint key, const in float score, const in float top) {
    return sees(rowAtOf(row), key) ? exp(max(score - top, -200.0)) : 0.0;
}
float factorOf(const in uint row, const in uint column, const in float old, const in float top) { return exp(max(old - top, -200.0)); }
float largerOf(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }
float larger(const in float a, const in float b) { return max(a, b); }
float sum(const in float a, const in float b) { return a + b; }

void multiplyDims(uint d, inout Scores scores) {
    Keys keys;
    coopMatLoad(keys, keyTile, d * (matrixK / 8u), keyPitch, gl_CooperativeMatrixLayoutColumnMajor);
    scores = coopMatMulAdd(query[d], keys, scores);
}
void addValues(uint n, const Weights weights, const Sums factors) {
    Values values;
    coopMatLoad(values, valueTile, n * (matrixN / 8u), valuePitch, gl_CooperativeMatrixLayoutRowMajor);
    outputs[n] = coopMatMulAdd(weights, values, outputs[n] * factors);
}

void takeTile(int tile, int end, const bool tested, uint parity) {
    tileFirst = tile;
    tileTested = tested;
    if (tested) shareSeen();

    Scores scores = Scores(0.0);
    EACH_BLOCK(d, dimBlocks, multiplyDims(d, scores))
    coopMatPerElementNV(scores, scores, scoreOf);

    Sums tops, factors, ofTile;
    coopMatReduceNV(tops, scores, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(tops, tops, largerOf, maxima);
    coopMatPerElementNV(factors, maxima, factorOf, tops);
    maxima = tops;

    Scores other;
    coopMatPerElementNV(other, scores, judgementOf);
    coopMatReduceNV(ofTile, other, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(judgements, judgements, largerOf, ofTile);

    coopMatReduceNV(other, maxima, gl_CooperativeMatrixReduceRowNV, larger); // as wide as the scores
    coopMatPerElementNV(scores, scores, weightOf, other);
    coopMatReduceNV(ofTile, scores, gl_CooperativeMatrixReduceRowNV, sum);
    weightSums = weightSums * factors + ofTile;

    const Weights weights = Weights(scores * weightScale);
    EACH_BLOCK(n, valueBlocks, addValues(n, weights, factors))
    if (nonFinite[parity] != 0u) {
        coopMatStore(weights, scoreTile, scoresAt, scorePitch, gl_CooperativeMatrixLayoutRowMajor);
        addNonFinite(tile, end);
    }
    subgroupSync(); // what is known of rows was read
}

#define TO_LANES(matrix, assign)                                                                                                           \
    coopMatStore(matrix, scoreTile, scoresAt, scorePitch, gl_CooperativeMatrixLayoutRowMajor);                                             \
    subgroupSync();                                                                                                                        \
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {                                                                                      \
        const float value = uintBitsToFloat(scoreTile[rowAtOf(tileRowOf(r))].x);                                                           \
        assign;                                                                                                                            \
    }                                                                                                                                      \
    subgroupSync();

void endRows() {
    TO_LANES(maxima, maximum[r] = value)
    TO_LANES(weightSums, weightSum[r] = part() == 0u ? value : 0.0) // storeRows adds up what lanes have
    TO_LANES(judgements, worst[r] = value == sawNothing ? 0u : value == sawSome ? 1u : 0x7f800000u)
}
