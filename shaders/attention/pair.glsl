// What a query row and a key are to each other: whether the row sees the key, and what becomes of
// their score. No other shader knows masks, bias, ALiBi, documents and softcap. A new term is a bit
// of pairTerms (interop.h) and its lines here.
//
// Included after operands.glsl, sequence.glsl and reach.glsl.
#include "lib/element.glsl"
#include "lib/math.glsl"

// Otherwise than by position: then no step of keys is free of tests.
const bool anyPairHidden = (pairTerms & termsThatHide) != 0u;
const bool anyScoreChanged = (pairTerms & ~(termsThatOnlyHide | termDropout)) != 0u;

#ifdef VKATTN_PROGRAM
#include "attention/program.glsl"
// What hooks are told of a pair: its batch entry, head, query and key, of the whole problem.
#define PAIR_OF_HOOK(row, key) rule.entry, headFirst + row.head, queryFirst + row.query, uint(min(key, keyLast))
#endif

// Tests of the stretch at hand (formBoxRuns).
#ifndef VKATTN_BOX_RUNS
const bool boxRuns = false;
#endif

// A query row of the batch entry at hand, and what the row knows of its keys.
struct Row {
    uint head, query; // of the chunk
    int begin, end;   // the keys that the row sees by position
    int position;     // the key at distance 0
    uint document;
    float slope;
    // With rules. The window, whose keys lie `dilation` apart; whether the token is global.
    int localBegin, localEnd, dilation;
    bool isGlobal;
    Box box;
    int runBegin, runEnd; // with boxRuns: keys of the box in the row of the grid at hand
    uint blocks; // in lengths[]: bits of the row's blocks
};
// Of what rules show, nothing.
Row rowWithoutRules(uint head, uint query, int begin, int end, int position, float slope) {
    return Row(head, query, begin, end, position, 0u, slope, 0, 0, 1, false, Box(0, 0, 0, 0, 0), 0, 0, 0u);
}

#ifdef VKATTN_PAIR_OPERANDS
void placeLocal(inout Row row) {
    const uint dilations = ruleWord(ruleDilations);
    const uint dilation = dilations != 0u ? ruleWord(dilations + headFirst + row.head) : ruleWord(ruleDilation);
    const uint left_ = ruleWord(ruleLeft), right_ = ruleWord(ruleRight), most = openSide / dilation;
    row.dilation = int(dilation);
    row.localBegin = left_ >= most ? -int(openSide) : row.position - int(left_ * dilation);
    row.localEnd = right_ >= most ? int(openSide) : row.position + int(right_ * dilation) + 1;
    row.isGlobal = false;
    if (ruleWord(ruleGlobals) != 0u && row.position >= 0 && row.position < int(seq.keyCount)) row.isGlobal = isGlobal(uint(row.position));
}
bool localShows(Row row, int key) {
    bool seen = key >= row.localBegin && key < row.localEnd;
    if ((pairTerms & termDilated) != 0u) {
        const int distance = abs(key - row.position);
        seen = seen && distance == quotientOf(distance, row.dilation, 1.0 / float(row.dilation)) * row.dilation;
    }
    // Without global tokens no token is one: the place is the header, and no bit of it is looked at.
    const bool anyGlobal = rule.globalsAt != rule.header;
    return seen || row.isGlobal || (anyGlobal && isGlobal(uint(min(key, keyLast))));
}
// Of the stretch that begins with the key.
void placeRun(inout Row row, int key) {
    const AxisRange run_ = boxRun(row.box, key);
    row.runBegin = run_.begin;
    row.runEnd = run_.end;
}
bool blocksShow(Row row, int key) {
    const uint column = uint(quotientOf(min(key, keyLast), rule.blockKeys, rule.perBlockKey));
    return (lengths[row.blocks + (column >> 5)] >> (column & 31u) & 1u) != 0u;
}
#endif

Row rowOf(uint head, uint query) {
    Row row = rowWithoutRules(head, query, keyBegin(query), keyEnd(query), alignedPosition(query), 0.0);
#ifdef VKATTN_PAIR_OPERANDS
    if (hasLocal) placeLocal(row);
    if (hasGrid) row.box = boxOf(row.position);
    if (hasBlocks)
        row.blocks = rule.blocksAt + (headFirst + head) * ruleWord(ruleBlockHead) +
                     (queryFirst + query) / ruleWord(ruleBlockQueries) * ruleWord(ruleBlockRow);
    if ((pairTerms & termDocuments) != 0u) row.document = idsQ[idsQBase + batch * idsQBatch + seq.queryStart + query];
    if ((pairTerms & termAlibi) != 0u) row.slope = uintBitsToFloat(SLOPE_BITS(head));
#endif
    return row;
}

// What scores need of a row, as words in shared memory.
struct RowFacts {
    uvec4 pieces[rowFactPieces];
};
RowFacts packRow(Row row) {
    RowFacts facts;
    facts.pieces[0] = uvec4(row.head, row.query, floatBitsToUint(row.slope), uint(row.position));
    return facts;
}
Row unpackRow(RowFacts facts) {
    const uvec4 first = facts.pieces[0];
    return rowWithoutRules(first.x, first.y, 0, 0, int(first.w), uintBitsToFloat(first.z));
}

#ifdef VKATTN_PAIR_OPERANDS
uint pairAt(uint base, PairStrides by, Row row) { return base + batch * by.batch + row.head * by.head + row.query * by.query; }
#endif

// What the bias adds to the score of a pair. Keys that may not be read repeat one that may.
float pairBias(Row row, int key) {
    float added = 0.0;
#ifdef VKATTN_PAIR_OPERANDS
    const uint held = uint(heldKey(key)) - keyFirst; // counted as the bindings do
    if ((pairTerms & termBias) != 0u) added = LOAD_ELEMENT(bias, biasType, pairAt(biasBase, biasStrides, row) + held * biasStrides.key);
#endif
    return added;
}

// Whether terms other than position leave the pair visible; `added`: its bias. Without branches
// around the loads: one took 48 registers more on RDNA3 and spilled on Adreno 750.
bool termsShow(Row row, int key, inout float added) {
    bool seen = true;
#ifdef VKATTN_PAIR_OPERANDS
    const uint held = uint(heldKey(key)) - keyFirst;
    if ((pairTerms & termMask) != 0u) {
        const uint at = pairAt(maskBase, maskStrides, row) + held * maskStrides.key;
        seen = seen && (mask[at >> 2] >> ((at & 3u) << 3) & 0xffu) != 0u;
    }
    if ((pairTerms & termBitMask) != 0u) {
        // The first word that is bound may begin with keys of the chunk before.
        const uint bit = held + (keyFirst & 31u);
        seen = seen && (mask[pairAt(maskBase, maskStrides, row) + (bit >> 5) * maskStrides.key] >> (bit & 31u) & 1u) != 0u;
    }
    if ((pairTerms & termDocuments) != 0u)
        seen = seen && idsK[idsKBase + batch * idsKBatch + seq.keyStart + held] == row.document;
    if (hasLocal) seen = seen && localShows(row, key);
    if (hasGrid) seen = seen && (boxRuns ? key >= row.runBegin && key < row.runEnd : boxHas(row.box, key));
    if (hasBlocks) seen = seen && blocksShow(row, key);
    if (hasPages) seen = seen && pageOf(min(key, keyLast)) < rule.poolPages;
    if ((pairTerms & termBias) != 0u) {
        added = pairBias(row, key);
        seen = seen && floatBitsToUint(added) != minusInfinityBits;
    }
#ifdef VKATTN_HOOK_VISIBLE
    if ((pairTerms & termVisibleHook) != 0u)
        seen = seen && vkattnVisible(PAIR_OF_HOOK(row, key));
#endif
#endif
    return seen;
}
bool pairVisible(Row row, int key, inout float added) {
    const bool reached = key >= row.begin && key < row.end;
    const bool shown = termsShow(row, key, added);
    return reached && shown;
}

// A scaled score with everything that terms make of it. `added`: the pair's bias.
float cappedScore(float score) {
#ifdef VKATTN_SOFTCAP
    if ((pairTerms & termSoftcap) != 0u) score = softcap * stableTanh(score / softcap);
#endif
    return score;
}
float withTermsAfterCap(Row row, int key, float score, float added) {
    if ((pairTerms & termBias) != 0u) score += added;
    if ((pairTerms & termAlibi) != 0u) {
        const float distance = abs(float(key - row.position));
#ifdef VKATTN_STAGE_PAIRS
        // The reference rounds once, whatever drivers contract.
        score = fma(-row.slope, distance, score);
#else
        score -= row.slope * distance;
#endif
    }
    return score;
}
// What a program makes of a score with all other terms.
float hookedScore(Row row, int key, float score) {
#ifdef VKATTN_HOOK_SCORE
    if (hooksScores) score = vkattnScore(score, PAIR_OF_HOOK(row, key));
#endif
    return score;
}
// What the gradient of that score is multiplied with, to be the one of `score`.
float hookSlope(Row row, int key, float score) {
#ifdef VKATTN_HOOK_SCORE_SLOPE
    if (hooksScores) return vkattnScoreSlope(score, PAIR_OF_HOOK(row, key));
#endif
    return 1.0;
}
// The weight of a pair that is no share of a sum (sumless).
float rowWeight(float score) {
#ifdef VKATTN_HOOK_ROW
    if (floatBitsToUint(score) != minusInfinityBits) return vkattnRow(score);
#endif
    return 0.0;
}
// What a program multiplies the pair's probability with, behind the row's sum (weighsPairs).
float hookFactor(Row row, int key) {
#ifdef VKATTN_HOOK_PROBABILITY
    return vkattnProbability(1.0, PAIR_OF_HOOK(row, key));
#endif
    return 1.0;
}
float withTerms(Row row, int key, float score, float added) {
    return hookedScore(row, key, withTermsAfterCap(row, key, cappedScore(score), added));
}
#if !defined(VKATTN_STAGE_PAIRS) && !defined(VKATTN_STAGE_PAIR_DELTAS) && !defined(VKATTN_STAGE_VISIBLE_BLOCKS)
float pairScore(Row row, int key, float dot, float added) { return withTerms(row, key, scale * dot, added); }
#endif

// Whether an operand alone makes the score NaN, by integer tests: the staged kernel rests no rule
// on how a driver computes with NaN.
bool termsUndefined(Row row, int key, float added) {
    bool undefined = false;
    if ((pairTerms & termBias) != 0u) undefined = isNanBits(floatBitsToUint(added));
    if ((pairTerms & termAlibi) != 0u) {
        const uint slopeBits = floatBitsToUint(row.slope);
        // An infinite slope times a distance of 0 is NaN, as the formula has it.
        undefined = undefined || isNanBits(slopeBits) || (!isFiniteBits(slopeBits) && key == row.position);
    }
    return undefined;
}
