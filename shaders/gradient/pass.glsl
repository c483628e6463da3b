// What both kernels of the backward pass over tiles share (gradient/tiles.glsl on lanes,
// gradient/matrices.glsl on matrix units): where rows lie, what is known of them, what a pair adds to
// the gradients, and how these are stored.
//
// Included after query_rows.glsl and dropout.glsl. Before it is included: form (interop.h).

// What a row adds to dSlopes, dSinks, dScale and dSoftcap is asked for; so is the word of NONFINITE.
const bool rowSumsWanted = (form & formRowSums) != 0u, nonfiniteWanted = (form & formNonfinite) != 0u;
// dQ or dK, and dV.
const bool headWanted = (form & formHeadGradient) != 0u, valueWanted = (form & formValueGradient) != 0u;
const uint headGradientType = elementTypes >> typesHeadGradient & 15u, valueGradientType = elementTypes >> typesValueGradient & 15u;

uint dOutAt, factsAt; // of row 0 of the head at hand
void beginHead(uint head) {
    beginQueries(head);
    dOutAt = oBase + batch * oBatch + head * oHead + seq.queryStart * oToken;
    factsAt = lseBase + (batch * headCount() + head) * queries * rowFactWords;
}
RowAt dOutRow(int row) { return RowAt(dOutAt + heldRow(row) * oToken); }
float dOutElement(RowAt row, uint dim) {
    if (!exactDims && dim >= valueDim) return 0.0;
    return LOAD_ELEMENT(dOut, outType, row.at + dim * oDim);
}

// What the gradients need of a row beside its operands (interop.h).
struct RowSums {
    float maximum, reciprocal, delta;
};
RowSums rowSumsAt(uint at) {
    return RowSums(uintBitsToFloat(rowFacts[at + factMaximum]), uintBitsToFloat(rowFacts[at + factInverseSum]),
                   uintBitsToFloat(rowFacts[at + factDelta]));
}

// What a pair adds to the gradients; P whatever the row sees, the others 0 where it does not see the
// key.
struct PairGradient {
    float weight, score, plain; // P, dS, dz
    float ofCap;                // what dS is multiplied with in dSoftcap
    float factor;               // what a program multiplies P with before it meets the value
};
// `dot`, `flow`: of the head dims and of the value dims; `added`: the pair's bias.
PairGradient pairGradient(Row row, RowSums sums, int key, float dot, float flow, float added, bool seen, bool kept) {
    const float z = scale * dot, capped = cappedScore(z);
    const float score = withTermsAfterCap(row, key, capped, added);
    PairGradient pair;
    pair.weight = expDifference(hookedScore(row, key, score), sums.maximum) * sums.reciprocal;
    float upstream = flow;
    if (drops) upstream = kept ? dropoutFactor * upstream : 0.0;
    pair.factor = 1.0;
    if (weighsPairs) {
        pair.factor = hookFactor(row, key);
        upstream = seen && kept ? pair.factor * upstream : 0.0;
    }
    pair.score = seen ? pair.weight * (upstream - sums.delta) : 0.0;
    if (hooksScores) pair.score = seen ? pair.score * hookSlope(row, key, score) : 0.0;
    pair.plain = pair.score;
    pair.ofCap = 0.0;
    if ((pairTerms & termSoftcap) != 0u) {
        const float x = z / softcap, t = capped / softcap, slope = 1.0 - t * t;
        pair.plain = seen ? pair.score * slope : 0.0;
        pair.ofCap = seen ? t - x * slope : 0.0;
    }
    return pair;
}

// What a row adds to dSlopes, dScale and dSoftcap, and whether the row sees a key.
struct RowTotals {
    float slopes, scale, softcap;
    bool seesKey;
};
RowTotals noTotals() { return RowTotals(0.0, 0.0, 0.0, false); }
void addToTotals(inout RowTotals totals, Row row, int key, PairGradient pair, float dot, bool seen) {
    totals.seesKey = totals.seesKey || seen;
    if ((pairTerms & termAlibi) != 0u) totals.slopes = fma(-abs(float(key - row.position)), pair.score, totals.slopes);
    if ((pairTerms & termSoftcap) != 0u) totals.softcap = fma(pair.score, pair.ofCap, totals.softcap);
    totals.scale = fma(pair.plain, seen ? dot : 0.0, totals.scale);
}
#ifndef VKATTN_OWNS_KEYS
// What a sink takes of a row, dSinks_h's summand. A row that sees nothing has its dLse alone: its
// dOut, and so its D_i, are unread.
float sinkSum(uint head, int row, RowSums sums, bool seesKey) {
    const uint bits = headFacts[headFirst + head].sink;
    if ((flags & flagSinks) == 0u || bits == minusInfinityBits) return 0.0;
    const float upstream = seesKey ? -sums.delta : uintBitsToFloat(rowFacts[factsAt + heldRow(row) * rowFactWords + factDLse]);
    const float weight = expDifference(uintBitsToFloat(bits), sums.maximum) * sums.reciprocal;
    return isFiniteBits(bits) ? weight * upstream : uintBitsToFloat(canonicalNanBits);
}
// To the workspace, for row_sums.comp: rows past a sequence's end (`there` false) add 0.
void storeTotals(uint head, int row, bool there, RowTotals totals, RowSums sums) {
    const uint at = valueGradientBase + ((batch * headCount() + head) * queries + uint(row)) * rowSumWords;
    float sink = 0.0;
    if (there) sink = sinkSum(head, row, sums, totals.seesKey);
    valueGradient[at + rowSumSlopes] = there ? floatBitsToUint(totals.slopes) : 0u;
    valueGradient[at + rowSumSinks] = floatBitsToUint(sink);
    valueGradient[at + rowSumScale] = there ? floatBitsToUint(totals.scale) : 0u;
    valueGradient[at + rowSumSoftcap] = there ? floatBitsToUint(totals.softcap) : 0u;
}
#endif

bool infiniteOrNan = false; // a stored gradient
void noteBits(uint type, float value) {
    if (!nonfiniteWanted) return;
    const uint bits = type == elementF32 ? floatBitsToUint(value) : type == elementBf16 ? floatToBfloat16(value) << 16 : 0u;
    const bool bad = type == elementF16 ? (floatToHalf(value) & 0x7c00u) == 0x7c00u : !isFiniteBits(bits);
    infiniteOrNan = infiniteOrNan || bad;
}
// Dims n and n + 1 of an item, neighbours, where `pair`; else dim n alone.
#define STORE_DIMS(words, type, at, stride, dim, count, pair, first_, second_)                                                              \
    if ((dim) < (count)) {                                                                                                                 \
        noteBits(type, first_);                                                                                                            \
        if ((pair) && (dim) + 1u < (count)) {                                                                                              \
            noteBits(type, second_);                                                                                                       \
            STORE_ELEMENT_PAIR(words, type, (at) + (dim) * (stride), stride, first_, second_)                                              \
        } else {                                                                                                                           \
            STORE_ELEMENT(words, type, (at) + (dim) * (stride), first_)                                                                    \
        }                                                                                                                                  \
    }
