// The backward pass of attention over tiles, for rows.comp and keys.comp: nothing of size queries x
// keys is in memory, and no sum is taken by atomics. A lane owns items, query rows or keys, with
// their operands and the sums of their gradients; the items of the other side pass by, in steps.
// Scores are computed anew from the rows' statistics (Dao et al. 2022, algorithm 4).
//
// Every item has head dims (q or k) and value dims (dOut or v). The products of a pair are dots of
// both; the gradients are sums of what passes by, weighted.
//
// The layouts of lanes: attention/tile_lanes.glsl. Before it is included, rows.comp and keys.comp define which side owns (VKATTN_OWNS_KEYS).
#define VKATTN_STAGE_GRADIENT
#include "lib/platform.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require

#include "attention/tile_lanes.glsl"
layout(constant_id = 13) const uint valueDimsPerLane = 1; // dimLanes * valueDimsPerLane covers the value dim
layout(constant_id = 17) const uint valueRun = 1;         // as `run`, of valueDimsPerLane

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"
#include "attention/query_rows.glsl"
#include "attention/pair.glsl"
#include "attention/dropout.glsl"
#include "gradient/pass.glsl"

const uint paddedValueDim = dimLanes * valueDimsPerLane;

#ifdef VKATTN_OWNS_KEYS
#define OWNED_HEAD(n) keyRow(laneItem(n))
#define OWNED_VALUE(n) valueRow(laneItem(n))
#define PASSING_HEAD(item) queryRow(item)
#define PASSING_VALUE(item) dOutRow(item)
#define ownedElement keyElement
#define ownedValueElement valueElement
#define passingElement queryElement
#define passingValueElement dOutElement
#define PASSING_RUN(out, row, dim, count) LOAD_RUN(out, q, qType, row, dim, count, queryElement)
#define PASSING_VALUE_RUN(out, row, dim, count) LOAD_RUN(out, dOut, outType, row, dim, count, dOutElement)
#define AtOwned KeyValueRow
#define AtPassing RowAt
#else
#define OWNED_HEAD(n) queryRow(laneItem(n))
#define OWNED_VALUE(n) dOutRow(laneItem(n))
#define PASSING_HEAD(item) keyRow(item)
#define PASSING_VALUE(item) valueRow(item)
#define ownedElement queryElement
#define ownedValueElement dOutElement
#define passingElement keyElement
#define passingValueElement valueElement
#define PASSING_RUN KEY_RUN
#define PASSING_VALUE_RUN VALUE_RUN
#define AtOwned RowAt
#define AtPassing KeyValueRow
#endif

shared float headTile[source == sourceShared ? tileItems * paddedDim : 1u];
shared float valueTile[source == sourceShared ? tileItems * paddedValueDim : 1u];

// State of a lane. Items past the end repeat the last one and are not stored.
float ownedHead[ownedPerLane * dimsPerLane];
float ownedValue[ownedPerLane * valueDimsPerLane];
float headSums[ownedPerLane * dimsPerLane];
#ifdef VKATTN_OWNS_KEYS
float valueSums[ownedPerLane * valueDimsPerLane];
shared float factTile[source == sourceShared ? tileItems * rowFactWords : 1u];
#else
RowSums ownedSums[ownedPerLane];
Row ownedRows[ownedPerLane];
RowTotals totals[ownedPerLane];
// Of dropout: bits of the keys that a row keeps, key % 32.
const uint drawnKeys = 32u; // a multiple of the step
uint keptKeys[ownedPerLane];
#endif

// Of the step: dots of the head dims, then P; dots of the value dims, then dz; bias.
float weights[cells], flows[cells], added[cells];
// Of the step, through shuffles: what the lane has loaded of the items that pass by.
const bool shuffled = source == sourceShuffled;
const uint headLoads = shuffled ? dimsPerLane / shuffleLanes : 1u, valueLoads = shuffled ? valueDimsPerLane / shuffleLanes : 1u;
float keptHead[shuffled ? stepItems * headLoads : 1u];
float keptValue[shuffled ? stepItems * valueLoads : 1u];

uint valueDimOf(uint n) { return n / valueRun * (valueRun * dimLanes) + dimLane * valueRun + n % valueRun; }

// One dim of a passing item, weighted, into partial_. A hidden pair has weight 0, and the item is
// masked away in bits as well: 0 * NaN is NaN, and an item may be hidden from one item of a tile and
// visible to the next.
#define ADD_PASSING(by, c, passing, tested, visible)                                                                                        \
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {                                                                                  \
        const uint mask_ = (tested) && ((visible) >> (n * stepItems + (c)) & 1u) == 0u ? 0u : 0xffffffffu;                                 \
        const float passing_ = (tested) ? uintBitsToFloat(floatBitsToUint(passing) & mask_) : (passing);                                   \
        partial_[n] = fma(by[n * stepItems + (c)], passing_, partial_[n]);                                                                 \
    }
#define TAKE_SUMS(sums, perLane, d) [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) partial_[n] = sums[n * (perLane) + (d)];
#define KEEP_SUMS(sums, perLane, d) [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) sums[n * (perLane) + (d)] = partial_[n];

#define ADD_STEP(sums, by, tested, visible, perLane, RUN_, runDims, dimOf_, ROW_, tile_, pitch, kept, loads)                                                 \
    {                                                                                                                                      \
        float partial_[ownedPerLane];                                                                                                      \
        if (source == sourceShuffled) {                                                                                                    \
            [[unroll]] for (uint d = 0u; d < (perLane); ++d) {                                                                             \
                TAKE_SUMS(sums, perLane, d)                                                                                                \
                [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                         \
                    const float passing = subgroupShuffle(kept[c * (loads) + d / shuffleLanes], d % shuffleLanes);                         \
                    ADD_PASSING(by, c, passing, tested, visible)                                                                            \
                }                                                                                                                          \
                KEEP_SUMS(sums, perLane, d)                                                                                                \
            }                                                                                                                              \
        } else if (source == sourceShared) {                                                                                               \
            [[unroll]] for (uint d = 0u; d < (perLane); ++d) {                                                                             \
                TAKE_SUMS(sums, perLane, d)                                                                                                \
                [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                         \
                    const float passing = tile_[(uint(j) % tileItems + c) * (pitch) + d];                                                  \
                    ADD_PASSING(by, c, passing, tested, visible)                                                                            \
                }                                                                                                                          \
                KEEP_SUMS(sums, perLane, d)                                                                                                \
            }                                                                                                                              \
        } else {                                                                                                                           \
            AtPassing at_[stepItems];                                                                                                      \
            [[unroll]] for (uint c = 0u; c < stepItems; ++c) at_[c] = ROW_(j + int(c));                                                    \
            [[unroll]] for (uint d = 0u; d < (perLane); d += (runDims)) {                                                                  \
                float loaded[stepItems * (runDims)];                                                                                       \
                [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                         \
                    float values[runDims];                                                                                                 \
                    RUN_(values, at_[c], dimOf_(d), runDims)                                                                               \
                    [[unroll]] for (uint e = 0u; e < (runDims); ++e) loaded[c * (runDims) + e] = values[e];                                \
                }                                                                                                                          \
                [[unroll]] for (uint e = 0u; e < (runDims); ++e) {                                                                         \
                    TAKE_SUMS(sums, perLane, d + e)                                                                                        \
                    [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                     \
                        const float passing = loaded[c * (runDims) + e];                                                                   \
                        ADD_PASSING(by, c, passing, tested, visible)                                                                        \
                    }                                                                                                                      \
                    KEEP_SUMS(sums, perLane, d + e)                                                                                        \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

// From the dots of a pair to P and dz.
void takePair(uint n, Row row, RowSums sums, int key, bool seen, bool kept) {
    const PairGradient pair = pairGradient(row, sums, key, weights[n], flows[n], added[n], seen, kept);
#ifndef VKATTN_OWNS_KEYS
    if (rowSumsWanted) addToTotals(totals[n / stepItems], row, key, pair, weights[n], seen);
#endif
    float weight = drops ? dropoutFactor * pair.weight : pair.weight;
    if (weighsPairs) weight *= pair.factor;
    weights[n] = seen && kept ? weight : 0.0;
    flows[n] = pair.plain;
}

#ifdef VKATTN_OWNS_KEYS
// Of the step: the rows that pass by.
Row passingRows[stepItems];
RowSums passingSums[stepItems];
void beginStep(uint head, int j, const bool tested) {
    if (source == sourceShuffled) {
        // A row's facts are neighbours of the next row's.
        [[unroll]] for (uint first = 0u; first < stepItems * rowFactWords; first += shuffleLanes) {
            const uint word = first + lane % shuffleLanes;
            const uint loaded = rowFacts[factsAt + heldRow(j + int(word / rowFactWords)) * rowFactWords + word % rowFactWords];
            [[unroll]] for (uint e = 0u; e < shuffleLanes; ++e) {
                const uint c = (first + e) / rowFactWords, fact = (first + e) % rowFactWords;
                if (c >= stepItems) continue;
                const float value = uintBitsToFloat(subgroupShuffle(loaded, e));
                if (fact == factMaximum) passingSums[c].maximum = value;
                if (fact == factInverseSum) passingSums[c].reciprocal = value;
                if (fact == factDelta) passingSums[c].delta = value;
            }
        }
    } else {
        [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
            if (source == sourceShared) {
                const uint at = (uint(j) % tileItems + c) * rowFactWords;
                passingSums[c] = RowSums(factTile[at + factMaximum], factTile[at + factInverseSum], factTile[at + factDelta]);
            } else {
                passingSums[c] = rowSumsAt(factsAt + heldRow(j + int(c)) * rowFactWords);
            }
        }
    }
    [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
        passingRows[c] = tested || anyScoreChanged ? rowOf(head, heldRow(j + int(c))) : rowWithoutRules(head, 0u, 0, 0, 0, 0.0);
        // A row past the end repeats the last one, and is seen by nobody.
        if (tested && j + int(c) >= int(rowCount)) passingRows[c].end = 0;
    }
}
#define ROW_OF(n, c) passingRows[c]
#define SUMS_OF(n, c) passingSums[c]
#define KEY_OF(n, c) laneItem(n)
// Which pairs of the step dropout keeps, as bits n * stepItems + c. The keys of a lane, 1, 2 or 4
// neighbours, are of one block.
uint keptPairs(uint head, int j) {
    if (!drops) return 0xffffffffu;
    const uint first = uint(itemOf(0u));
    uint bits = 0u;
    [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
        const uint kept = keptOfBlock(head, heldRow(j + int(c)), first / 4u) >> first % 4u;
        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) bits |= (kept >> n & 1u) << (n * stepItems + c);
    }
    return bits;
}
#else
void beginStep(uint head, int j, const bool tested) {}
#define ROW_OF(n, c) ownedRows[n]
#define SUMS_OF(n, c) ownedSums[n]
#define KEY_OF(n, c) (j + int(c))
uint keptPairs(uint head, int j) {
    if (!drops) return 0xffffffffu;
    uint bits = 0u;
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        [[unroll]] for (uint c = 0u; c < stepItems; ++c) bits |= (keptKeys[n] >> (uint(j) + c) % drawnKeys & 1u) << (n * stepItems + c);
    return bits;
}
// Fills keptKeys for the keys [tile, tile + drawnKeys): steps draw nothing.
void drawKept(uint head, int tile) {
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) keptKeys[n] = 0u;
    [[dont_unroll]] for (uint block = 0u; block < drawnKeys / 4u; ++block)
        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
            keptKeys[n] |= keptOfBlock(head, uint(laneItem(n)), uint(tile) / 4u + block) << block * 4u;
}
#endif

// Which pairs of the step are visible, as bits n * stepItems + c; fills `added`.
uint visiblePairs(int j) {
    uint bits = 0u;
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
            const bool seen = pairVisible(ROW_OF(n, c), KEY_OF(n, c), added[n * stepItems + c]);
            bits |= seen ? 1u << (n * stepItems + c) : 0u;
        }
    return bits;
}

void takeStep(uint head, int j, const bool tested) {
    beginStep(head, j, tested);
    const uint visible = tested ? visiblePairs(j) : 0xffffffffu, kept = keptPairs(head, j);
    MULTIPLY(weights, ownedHead, dimsPerLane, PASSING_RUN, run, dimOf, PASSING_HEAD, passingElement, headTile, paddedDim, keptHead, headLoads)
    MULTIPLY(flows, ownedValue, valueDimsPerLane, PASSING_VALUE_RUN, valueRun, valueDimOf, PASSING_VALUE, passingValueElement, valueTile,
             paddedValueDim, keptValue, valueLoads)
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        [[unroll]] for (uint c = 0u; c < stepItems; ++c)
            takePair(n * stepItems + c, ROW_OF(n, c), SUMS_OF(n, c), KEY_OF(n, c), !tested || (visible >> (n * stepItems + c) & 1u) != 0u,
                     !drops || (kept >> (n * stepItems + c) & 1u) != 0u);
#ifdef VKATTN_OWNS_KEYS
    if (valueWanted)
        ADD_STEP(valueSums, weights, tested || drops, visible & kept, valueDimsPerLane, PASSING_VALUE_RUN, valueRun, valueDimOf, PASSING_VALUE, valueTile, paddedValueDim, keptValue,
             valueLoads)
#endif
    if (headWanted)
        ADD_STEP(headSums, flows, tested, visible, dimsPerLane, PASSING_RUN, run, dimOf, PASSING_HEAD, headTile, paddedDim, keptHead, headLoads)
}

// Functions from here on are called once, and loops that a form goes through once end with it: compilers of SPIR-V
// make a copy of a function for each call.
//
// Steps [from, to) that every item of the tile sees whole.
void takeWholeSteps(uint head, int from, int to) {
    if (anyPairHidden) return;
    for (int j = from; j < to; j += int(stepItems)) takeStep(head, j, false);
}
// Steps [from, to) without [skipFrom, skipTo).
void takeTestedSteps(uint head, int from, int to, int skipFrom, int skipTo) {
    // With rules that hide no step is whole.
    int j = !hasSkips && from == skipFrom ? skipTo : from;
    do {
        int end = to;
        if (hasSkips) {
            if (j >= to) break;
            const Stretch stretch = NEXT_ITEMS(head, j, to);
            if (stretch.begin >= to) break;
            j = max(j, alignDown(stretch.begin));
            end = min(stretch.end, to);
        }
        for (; j < end; j = !hasSkips && j + int(stepItems) == skipFrom ? skipTo : j + int(stepItems)) takeStep(head, j, true);
    } while (hasSkips);
}

// Steps [from, to), of which every item sees [wholeFrom, wholeTo); with what dropout draws for them.
void takeSteps(uint head, int from, int to, int wholeFrom, int wholeTo) {
#ifdef VKATTN_OWNS_KEYS
    takeWholeSteps(head, wholeFrom, wholeTo);
    takeTestedSteps(head, from, to, wholeFrom, wholeTo);
#else
    int tile = from / int(drawnKeys) * int(drawnKeys);
    do {
        int begin = from, end = to, wholeBegin = wholeFrom, wholeEnd = wholeTo;
        if (drops) {
            if (tile >= to) break;
            drawKept(head, tile);
            begin = max(tile, from), end = min(tile + int(drawnKeys), to);
            wholeBegin = clamp(wholeFrom, begin, max(end, begin)), wholeEnd = clamp(wholeTo, wholeBegin, max(end, wholeBegin));
        }
        takeWholeSteps(head, wholeBegin, wholeEnd);
        takeTestedSteps(head, begin, end, wholeBegin, wholeEnd);
        tile += int(drawnKeys);
    } while (drops);
#endif
}

void stageTile(int tile) {
    barrier();
    for (uint n = lane; n < tileItems * paddedDim; n += gl_WorkGroupSize.x)
        headTile[n] = passingElement(PASSING_HEAD(tile + int(n / paddedDim)), n % paddedDim);
    for (uint n = lane; n < tileItems * paddedValueDim; n += gl_WorkGroupSize.x)
        valueTile[n] = passingValueElement(PASSING_VALUE(tile + int(n / paddedValueDim)), n % paddedValueDim);
#ifdef VKATTN_OWNS_KEYS
    for (uint n = lane; n < tileItems * rowFactWords; n += gl_WorkGroupSize.x)
        factTile[n] = uintBitsToFloat(rowFacts[factsAt + heldRow(tile + int(n / rowFactWords)) * rowFactWords + n % rowFactWords]);
#endif
    barrier();
}

// All that passes by of a head: items [begin, end), of which every item of the tile sees
// [wholeBegin, wholeEnd).
void takeHead(uint head, int begin, int end, int wholeBegin, int wholeEnd) {
    begin = alignDown(begin);
    wholeBegin = min(alignDown(wholeBegin + int(stepItems) - 1), max(end, 0));
    wholeEnd = anyPairHidden ? wholeBegin : max(alignDown(max(wholeEnd, 0)), wholeBegin);
    Stretch stretch = Stretch(0, 0); // with rules, what is visited next
    int tile = begin / int(tileItems) * int(tileItems);
    do {
        int from = begin, to = end, wholeFrom = wholeBegin, wholeTo = wholeEnd;
        if (source == sourceShared) {
            if (tile >= end) break;
            if (hasSkips) {
                if (tile >= stretch.end) {
                    stretch = NEXT_ITEMS(head, max(tile, begin), end);
                    if (stretch.begin >= end) break;
                }
                tile = max(tile, stretch.begin / int(tileItems) * int(tileItems));
            }
            stageTile(tile);
            from = max(tile, begin), to = min(tile + int(tileItems), end);
            wholeFrom = clamp(wholeBegin, from, max(to, from)), wholeTo = clamp(wholeEnd, wholeFrom, max(to, wholeFrom));
        }
        takeSteps(head, from, to, wholeFrom, wholeTo);
        tile += int(tileItems);
    } while (source == sourceShared);
}

#define STORE_OWNED(words, type, sums, perLane, block, runDims, dimOf_, count, baseAt, strides, by)                                          \
    {                                                                                                                                      \
        const uint width = (runDims) % 2u == 0u ? 2u : 1u;                                                                                 \
        [[dont_unroll]] for (uint item = 0u; item < ownedPerLane; ++item) {                                                                \
            const uint at_ = (baseAt) + uint(itemOf(item)) * (strides).token;                                                              \
            const bool mine = itemOf(item) < int(stored), zero = itemOf(item) > ownedLast;                                                 \
            if (rolledEdges) {                                                                                                             \
                for (uint n = 0u; n < (perLane); n += width) {                                                                             \
                    const float first_ = zero ? 0.0 : sums[item * (perLane) + n] * (by);                                                   \
                    const float second_ = zero ? 0.0 : sums[item * (perLane) + n + width - 1u] * (by);                                     \
                    if (mine) { STORE_DIMS(words, type, at_, (strides).dim, dimOf_(n), count, width == 2u, first_, second_) }              \
                }                                                                                                                          \
            } else {                                                                                                                       \
                [[dont_unroll]] for (uint from = 0u; from < (perLane); from += (block)) {                                                  \
                    [[unroll]] for (uint e = 0u; e < (block); e += width) {                                                                \
                        float first_ = 0.0, second_ = 0.0;                                                                                 \
                        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)                                                                \
                            [[unroll]] for (uint b = 0u; b < BLOCKS_OF(perLane); ++b) {                                                    \
                                const bool here = n == item && b * (block) == from;                                                        \
                                first_ = here ? sums[n * (perLane) + min(b * (block) + e, (perLane)-1u)] : first_;                         \
                                second_ = here ? sums[n * (perLane) + min(b * (block) + e + width, (perLane)) - 1u] : second_;             \
                            }                                                                                                              \
                        first_ = zero ? 0.0 : first_ * (by);                                                                               \
                        second_ = zero ? 0.0 : second_ * (by);                                                                             \
                        if (mine && from + e < (perLane)) {                                                                                \
                            STORE_DIMS(words, type, at_, (strides).dim, dimOf_(from + e), count, width == 2u, first_, second_)             \
                        }                                                                                                                  \
                    }                                                                                                                      \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

void loadOwned() {
    LOAD_OWNED(ownedHead, dimsPerLane, BLOCK_OF(dimsPerLane), OWNED_HEAD, ownedElement, dimOf)
    LOAD_OWNED(ownedValue, valueDimsPerLane, BLOCK_OF(valueDimsPerLane), OWNED_VALUE, ownedValueElement, valueDimOf)
    if (rolledEdges) {
        for (uint n = 0u; n < ownedPerLane * dimsPerLane; ++n) headSums[n] = 0.0;
#ifdef VKATTN_OWNS_KEYS
        for (uint n = 0u; n < ownedPerLane * valueDimsPerLane; ++n) valueSums[n] = 0.0;
#endif
    } else {
        [[unroll]] for (uint n = 0u; n < ownedPerLane * dimsPerLane; ++n) headSums[n] = 0.0;
#ifdef VKATTN_OWNS_KEYS
        [[unroll]] for (uint n = 0u; n < ownedPerLane * valueDimsPerLane; ++n) valueSums[n] = 0.0;
#endif
    }
}

void beginLanes() {
    placeLane(ownedFirst);
    headDim = dims & 0xffffu;
    valueDim = dims >> 16;
}
