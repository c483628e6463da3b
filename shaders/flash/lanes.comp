#version 450
// Fused attention: scores, masks, online softmax and weighted values of a tile of query rows,
// nothing of size queries x keys in memory (Dao et al. 2022, FlashAttention; Milakov and Gimelshein
// 2018, online softmax). One source for every device class; specialization constants lay out the
// lanes of a workgroup as rowLanes x keyLanes x dimLanes:
//     prefill on CPU devices   lanes are query rows, several rows a lane; K and V are the same for
//                              all lanes and come through shared
//                              memory, or by one load of neighbouring dims and subgroup shuffles
//     prefill on GPUs          dimLanes lanes share the dims of a row, so that q and the output fit
//                              registers and loads coalesce
//     decode                   lanes also along keys (keyLanes), each with a softmax of its own;
//                              combine.comp merges them
// Results of splits and key lanes go to the workspace as (maximum, sum, worst score, unnormalised
// output); otherwise the output is written here. Query heads of one key head may be packed as rows
// (packedHeads), so that K and V are read once for all of them. Where V is the first dims of K
// (valuesInKeys), a key is loaded once for both products.
//
// Defines: VKATTN_SUBGROUPS: subgroup operations may be used (SPIR-V 1.3); VKATTN_OPTIONS: bindings
// past the fourth exist. Without it the shader stays within the four storage buffers that Vulkan
// 1.0 guarantees.
#define VKATTN_STAGE_FLASH
#include "lib/platform.glsl"
#ifdef VKATTN_SUBGROUPS
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#endif

layout(constant_id = constantForm) const uint form = 0; // interop.h
const bool exactDims = (form & formExactDims) != 0u, rolledEdges = (form & formRolledEdges) != 0u;
const uint source = form >> formSource & 3u;
const bool boxRuns = (form & formBoxRuns) != 0u;
#define VKATTN_BOX_RUNS

layout(constant_id = 8) const uint dimLanes = 1;
layout(constant_id = 9) const uint keyLanes = 1;
layout(constant_id = 10) const uint rowLanes = 8;
layout(constant_id = 11) const uint rowsPerLane = 1;
layout(constant_id = 12) const uint keysPerLane = 1;      // keys of a step, for each key lane
// dimLanes * dimsPerLane covers the head dim
layout(constant_id = 13) const uint dimsPerLane = 1;
layout(constant_id = 14) const uint valueDimsPerLane = 1; // and the value dim
// sourceShared: keys in shared memory at a time
layout(constant_id = 15) const uint tileKeys = 1;
// sourceShuffled: subgroup size, 4, 8 or 16
layout(constant_id = 16) const uint shuffleLanes = 4;
// Neighbouring dims of a lane; divides dimsPerLane, even where that is.
layout(constant_id = 17) const uint run = 1;
layout(constant_id = 18) const uint valueRun = 1;         // likewise of valueDimsPerLane

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"
#include "attention/pair.glsl"
#include "attention/dropout.glsl"
#include "flash/workgroup.glsl"

const uint stepKeys = keysPerLane * keyLanes; // keys of a step
const uint cells = rowsPerLane * keysPerLane;
const uint tileRows = rowLanes * rowsPerLane;
// Of dropout: keys whose words are drawn together, whole steps, and the words that keep a bit of each
// for a row. The loops over steps draw nothing: software drivers compute both sides of a branch. They
// also run each loop once more than it has rounds, so that runs of keys are long where a lane has
// whole rows and no tiles in shared memory cut them.
const uint mostDrawn = dimLanes > 1u ? 32u : 128u;
const uint drawnKeys = stepKeys > 32u                                    ? stepKeys
                       : source == sourceShared && tileKeys <= mostDrawn ? tileKeys
                                                                         : mostDrawn / stepKeys * stepKeys;
const uint keptWords = stepKeys > 32u || drawnKeys <= 32u ? 1u : 4u;
const uint paddedDim = dimLanes * dimsPerLane, paddedValueDim = dimLanes * valueDimsPerLane;

// Loads of q and stores of the output are unrolled for edgeDims dims of a lane, and a loop goes
// over blocks of these: a load or store is a branch in software drivers, and all of them together
// took Mesa 22 longer to compile than the multiply-adds. Without blocks where these are few: a lane
// has whole rows, in f32, and no dim is past the end, which would be another branch for each. Where
// lanes share the dims of a row, the loop stays even over one block: NVK needs 16 registers more
// without the loop, of 128.
const bool wholeEdges = exactDims && dimLanes == 1u;
const uint mostDims = wholeEdges && qType == elementF32 && dimsPerLane <= wholeEdgeDims ? wholeEdgeDims : edgeDims,
           blockDims = dimsPerLane < mostDims ? dimsPerLane : mostDims,
           dimBlocks = (dimsPerLane + blockDims - 1u) / blockDims;
const uint mostValues = wholeEdges && outType == elementF32 && valueDimsPerLane <= wholeEdgeDims ? wholeEdgeDims : edgeDims,
           valueBlockDims = valueDimsPerLane < mostValues ? valueDimsPerLane : mostValues,
           valueDimBlocks = (valueDimsPerLane + valueBlockDims - 1u) / valueBlockDims;

// Values of dims past the value dim are computed from what K has there, and not stored.
const uint keyPitch = valuesInKeys && paddedValueDim > paddedDim ? paddedValueDim : paddedDim;
const bool ownValues = source == sourceShared && !valuesInKeys;
shared float kTile[source == sourceShared ? tileKeys * keyPitch : 1u];
shared float vTile[ownValues ? tileKeys * paddedValueDim : 1u];
// Of dropout: the tile of keys that had a value that is not finite, plus 1. The value of a dropped pair
// must not reach the sum: 0 * NaN is NaN. Values of other tiles need no masks.
const bool looksForNonFinite = drops && source == sourceShared;
shared int nonFiniteTile;
#ifndef VKATTN_SUBGROUPS
shared float exchange[dimLanes > 1u ? dimLanes * keyLanes * rowLanes * cells : 1u];
#endif

// State of a lane. Rows past the end repeat the last one and are not stored.
float query[rowsPerLane * dimsPerLane];
float sums[rowsPerLane * valueDimsPerLane]; // unnormalised output
float maximum[rowsPerLane];                 // of visible scores
float weightSum[rowsPerLane];               // of exp(score - maximum)
// Largest |score| in bits; a visible -infinity counts as 1.
uint worst[rowsPerLane];
Row rows[rowsPerLane];
float weights[cells];                       // of the step: scores, then exp(score - maximum)
float rescale[rowsPerLane];
float added[cells];                         // of the step: bias
// Of the step: what a lane has loaded of K, where V is a part of that and comes with it.
const bool keepsKeys = valuesInKeys && source == sourceDirect;
float kept[keepsKeys ? keysPerLane * dimsPerLane : 1u];

// Of dropout: bits of the keys that a row keeps, key % (32 * keptWords); where a step has more keys
// than 32, bits of the lane's keys of the step.
uint keptKeys[rowsPerLane * keptWords];

uint lane, dimLane, keyLane, rowLane;

uint dimOf(uint n) { return n / run * (run * dimLanes) + dimLane * run + n % run; }
uint valueDimOf(uint n) { return n / valueRun * (valueRun * dimLanes) + dimLane * valueRun + n % valueRun; }

uint laneRow(uint r) { return min(tileRow + rowLane * rowsPerLane + r, rowCount - 1u); }

// `at`: where the row begins.
float loadQuery(uint at, uint n) {
    const uint dim = dimOf(n);
    if (!exactDims && dim >= headDim) return 0.0;
    return LOAD_ELEMENT(q, qType, at + dim * qDim);
}

// Sums over the lanes of a row.
void reduceOverDims() {
#ifdef VKATTN_SUBGROUPS
    // Not a counter that doubles: Mesa would not unroll the loop, and every round of it would count
    // against the 65,535 that a shader may take on software devices (found 2026-11-21: the last
    // keys of 32,768 were lost).
    [[unroll]] for (uint n = 0u; n < cells; ++n)
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (dimLanes >> bit > 1u) weights[n] += subgroupShuffleXor(weights[n], 1u << bit);
#else
    if (dimLanes > 1u) {
        barrier();
        [[unroll]] for (uint n = 0u; n < cells; ++n) exchange[n * gl_WorkGroupSize.x + lane] = weights[n];
        barrier();
        [[unroll]] for (uint n = 0u; n < cells; ++n) {
            float sum = 0.0;
            [[unroll]] for (uint other = 0u; other < dimLanes; ++other) sum += exchange[n * gl_WorkGroupSize.x + (lane - dimLane) + other];
            weights[n] = sum;
        }
    }
#endif
}

// What a shuffle from lane e of the subgroup does with the values loaded there; e is a constant
// where loops are unrolled.
#ifdef VKATTN_SUBGROUPS
const bool subgroupsUsed = true;
#define FROM_LANE(value, e) subgroupShuffle(value, e)
#define ANY_LANE(condition) subgroupAny(condition)
#else
const bool subgroupsUsed = false;
#define FROM_LANE(value, e) (value)
#define ANY_LANE(condition) (condition)
#endif

void multiplyKeys(int j) {
    [[unroll]] for (uint n = 0u; n < cells; ++n) weights[n] = 0.0;
    if (source == sourceShuffled) {
        KeyValueRow at[keysPerLane];
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) at[c] = keyRow(j + int(c));
        [[unroll]] for (uint d = 0u; d < dimsPerLane; d += shuffleLanes) {
            float loaded[keysPerLane];
            [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) loaded[c] = keyElement(at[c], d + lane % shuffleLanes);
            [[unroll]] for (uint e = 0u; e < shuffleLanes; ++e)
                [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                    const float key = FROM_LANE(loaded[c], e);
                    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
                        weights[r * keysPerLane + c] = fma(query[r * dimsPerLane + d + e], key, weights[r * keysPerLane + c]);
                }
        }
        return;
    }
    if (source == sourceShared) {
        [[unroll]] for (uint d = 0u; d < dimsPerLane; ++d)
            [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                const float key = kTile[(uint(j) % tileKeys + c) * keyPitch + dimOf(d)];
                [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
                    weights[r * keysPerLane + c] = fma(query[r * dimsPerLane + d], key, weights[r * keysPerLane + c]);
            }
        reduceOverDims();
        return;
    }
    KeyValueRow at[keysPerLane];
    [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) at[c] = keyRow(j + int(c * keyLanes + keyLane));
    [[unroll]] for (uint d = 0u; d < dimsPerLane; d += run)
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            float loaded[run];
            KEY_RUN(loaded, at[c], dimOf(d), run)
            if (keepsKeys)
                [[unroll]] for (uint e = 0u; e < run; ++e) kept[c * dimsPerLane + d + e] = loaded[e];
            [[unroll]] for (uint e = 0u; e < run; ++e)
                [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
                    weights[r * keysPerLane + c] = fma(query[r * dimsPerLane + d + e], loaded[e], weights[r * keysPerLane + c]);
        }
    reduceOverDims();
}

// One value of the step into the sums of all rows. A hidden pair has weight 0, and its value is
// masked away in bits as well: 0 * NaN is NaN, and a key may be hidden from one row of a tile and
// visible to the next.
#define ADD_VALUE(d, c, value, tested)                                                                                                     \
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {                                                                                   \
        const uint kept_ = (tested) && (visible >> (r * keysPerLane + (c)) & 1u) == 0u ? 0u : 0xffffffffu;                                 \
        const float value_ = (tested) ? uintBitsToFloat(floatBitsToUint(value) & kept_) : (value);                                         \
        const float before_ = (c) == 0u ? sums[r * valueDimsPerLane + (d)] * rescale[r] : partial_[r];                                     \
        partial_[r] = fma(weights[r * keysPerLane + (c)], value_, before_);                                                                \
    }
#define KEEP_SUMS(d) [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) sums[r * valueDimsPerLane + (d)] = partial_[r];

void addValues(int j, uint visible, const bool tested) {
    float partial_[rowsPerLane];
    KeyValueRow at[keysPerLane];
    if (source == sourceShuffled) {
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) at[c] = valueRow(j + int(c));
        [[unroll]] for (uint d = 0u; d < valueDimsPerLane; d += shuffleLanes) {
            float loaded[keysPerLane];
            [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) loaded[c] = valueElement(at[c], d + lane % shuffleLanes);
            [[unroll]] for (uint e = 0u; e < shuffleLanes; ++e) {
                [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                    const float value = FROM_LANE(loaded[c], e);
                    ADD_VALUE(d + e, c, value, tested)
                }
                KEEP_SUMS(d + e)
            }
        }
        return;
    }
    if (source == sourceShared) {
        [[unroll]] for (uint d = 0u; d < valueDimsPerLane; ++d) {
            [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                const uint at_ = uint(j) % tileKeys + c;
                const float value = valuesInKeys ? kTile[at_ * keyPitch + valueDimOf(d)] : vTile[at_ * paddedValueDim + valueDimOf(d)];
                ADD_VALUE(d, c, value, tested)
            }
            KEEP_SUMS(d)
        }
        return;
    }
    [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) at[c] = valueRow(j + int(c * keyLanes + keyLane));
    [[unroll]] for (uint d = 0u; d < valueDimsPerLane; d += valueRun) {
        float loaded[keysPerLane * valueRun];
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            float values[valueRun];
            if (keepsKeys) {
                [[unroll]] for (uint e = 0u; e < valueRun; ++e) values[e] = kept[c * dimsPerLane + d + e];
            } else {
                VALUE_RUN(values, at[c], valueDimOf(d), valueRun)
            }
            [[unroll]] for (uint e = 0u; e < valueRun; ++e) loaded[c * valueRun + e] = values[e];
        }
        [[unroll]] for (uint e = 0u; e < valueRun; ++e) {
            [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                const float value = loaded[c * valueRun + e];
                ADD_VALUE(d + e, c, value, tested)
            }
            KEEP_SUMS(d + e)
        }
    }
}

// Which pairs of the step are visible, as bits r * keysPerLane + c; fills `added`.
uint visiblePairs(int j) {
    uint bits = 0u;
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            const bool seen = pairVisible(rows[r], j + int(c * keyLanes + keyLane), added[r * keysPerLane + c]);
            bits |= seen ? 1u << (r * keysPerLane + c) : 0u;
        }
    return bits;
}

// Fills keptKeys for the keys [tile, tile + drawnKeys). Lanes that share the dims of a row share the
// drawing where they can shuffle.
#ifdef VKATTN_SUBGROUPS
const uint drawers = dimLanes;
#else
const uint drawers = 1u;
#endif
void drawKept(int tile) {
    [[unroll]] for (uint n = 0u; n < rowsPerLane * keptWords; ++n) keptKeys[n] = 0u;
    if (stepKeys > 32u) {
        [[dont_unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            const uint key = uint(tile) + c * keyLanes + keyLane;
            [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
                keptKeys[r] |= (keptOfBlock(rows[r].head, rows[r].query, key / 4u) >> (key % 4u) & 1u) << c;
        }
        return;
    }
    const uint first = uint(tile) / 4u, end = (uint(tile) + drawnKeys + 3u) / 4u;
    for (uint block = first; block < end; block += drawers) {
        const uint own = block + (drawers > 1u ? dimLane : 0u);
        // Where tiles begin and end inside a block, the rest of the block is not of the tile.
        uint ofTile = own < end ? 0xfu : 0u;
        if (drawnKeys % 4u != 0u)
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                if (own * 4u + e - uint(tile) >= drawnKeys) ofTile &= ~(1u << e);
        [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
            const uint kept = keptOfBlock(rows[r].head, rows[r].query, own) & ofTile;
            [[unroll]] for (uint w = 0u; w < keptWords; ++w) // a select: every index is a constant
                keptKeys[r * keptWords + w] |= w == own / 8u % keptWords ? kept << (own * 4u % 32u) : 0u;
        }
    }
#ifdef VKATTN_SUBGROUPS
    [[unroll]] for (uint n = 0u; n < rowsPerLane * keptWords; ++n)
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (dimLanes >> bit > 1u) keptKeys[n] |= subgroupShuffleXor(keptKeys[n], 1u << bit);
#endif
}
// Which pairs of the step dropout keeps, as bits r * keysPerLane + c.
uint keptPairs(int j) {
    uint bits = 0u;
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            const uint at = stepKeys > 32u ? c : uint(j) + c * keyLanes + keyLane;
            uint word = keptKeys[r * keptWords];
            [[unroll]] for (uint w = 1u; w < keptWords; ++w) word = w == at / 32u % keptWords ? keptKeys[r * keptWords + w] : word;
            bits |= (word >> at % 32u & 1u) << (r * keysPerLane + c);
        }
    return bits;
}

void takeStep(int j, uint visible, const bool tested) {
    multiplyKeys(j);
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
        float rowMaximum = maximum[r];
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            const uint n = r * keysPerLane + c;
            const float score = pairScore(rows[r], j + int(c * keyLanes + keyLane), weights[n], added[n]);
            const bool seen = !tested || (visible >> n & 1u) != 0u;
            worst[r] = max(worst[r], seen ? worstOf(score) : 0u);
            weights[n] = score;
            if (!sumless) rowMaximum = max(rowMaximum, seen ? score : lowest);
        }
        rescale[r] = expDifference(maximum[r], rowMaximum);
        maximum[r] = rowMaximum;
        float sum = weightSum[r] * rescale[r];
        [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
            const uint n = r * keysPerLane + c;
            const bool hidden = tested && (visible >> n & 1u) == 0u;
            const float weight = sumless ? rowWeight(weights[n]) : expDifference(weights[n], rowMaximum);
            weights[n] = hidden ? 0.0 : weight;
            sum += !sumless ? weights[n] : hidden ? 0.0 : 1.0;
        }
        weightSum[r] = sum;
    }
    // A dropped pair has its part in the sum and none in the output: as a hidden pair has there.
    if (drops) {
        visible &= keptPairs(j);
        [[unroll]] for (uint n = 0u; n < cells; ++n) weights[n] = (visible >> n & 1u) == 0u ? 0.0 : weights[n];
    }
    if (weighsPairs)
        [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
            [[unroll]] for (uint c = 0u; c < keysPerLane; ++c) {
                const uint n = r * keysPerLane + c;
                const float factor = hookFactor(rows[r], j + int(c * keyLanes + keyLane));
                weights[n] = (visible >> n & 1u) == 0u ? 0.0 : weights[n] * factor;
            }
    addValues(j, visible, tested || (drops && !looksForNonFinite));
}

// Steps [from, to) that every row of the workgroup sees whole; with dropout, of finite values where the
// shader looks for others.
void takeWholeSteps(int from, int to) {
    if (anyPairHidden) return;
    for (int j = from; j < to; j += int(stepKeys)) takeStep(j, 0xffffffffu, false);
}
int alignDown(int key) { return key / int(stepKeys) * int(stepKeys); }
// The first step from `step` on that is not in [skipFrom, skipTo).
int passedBy(int step, int skipFrom, int skipTo) { return step == skipFrom ? skipTo : step; }
// Steps [from, to) without [skipFrom, skipTo). Where masks leave nothing of a step for any lane
// that must go along, it is not computed. Rules have skipped such steps before.
const bool looksAhead = (pairTerms & termsThatEmptySteps) != 0u && subgroupsUsed;
void takeStretch(int from, int to, int skipFrom, int skipTo) {
    for (int j = passedBy(from, skipFrom, skipTo); j < to; j = passedBy(j + int(stepKeys), skipFrom, skipTo)) {
        uint visible = visiblePairs(j);
        // The loop, not a branch: software drivers compute both sides of one. Lanes of a subgroup
        // stay at one step: SwiftShader mixes up what they computed where they do not (found
        // 2026-11-21, wrong sums under masks).
        if (looksAhead)
            while (passedBy(j + int(stepKeys), skipFrom, skipTo) < to && !ANY_LANE(visible != 0u)) {
                j = passedBy(j + int(stepKeys), skipFrom, skipTo);
                visible = visiblePairs(j);
            }
        takeStep(j, visible, true);
    }
}
// Each of the functions from here on to main is called once. Compilers of SPIR-V make a copy of a function for
// each call, and copies of copies: with calls for each form, a step was there twelve times, and compiling took
// 8.8 GB. Loops that a form goes through once end with a break.
//
// Keys that every row of the workgroup has within its reach; none where bits must not depend on which rows share
// a workgroup: whole steps come before others.
int reachedBegin, reachedEnd;
#ifdef VKATTN_LENGTHS_BOUND
const bool hasSkipsHere = hasSkips;
#else
const bool hasSkipsHere = false;
#endif
// The same, of what rules leave of them: of a stretch that all rows see, as whole steps.
void takeTestedSteps(int from, int to, int skipFrom, int skipTo) {
    int j = from;
    do {
        int begin = from;
        bool any = true, done = true;
#ifdef VKATTN_LENGTHS_BOUND
        if (hasSkips) {
            if (j >= to) break;
            const Stretch stretch = nextKeys(j, to);
            begin = max(j, alignDown(stretch.begin));
            j = min(max(alignDown(stretch.end + int(stepKeys) - 1), begin + int(stepKeys)), to);
            if (boxRuns)
                [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) placeRun(rows[r], begin);
            skipFrom = skipTo = begin;
            if (mayShowWholes) {
                const Stretch whole = wholeKeys(stretch);
                skipFrom = clamp(alignDown(max(max(whole.begin, reachedBegin), 0) + int(stepKeys) - 1), begin, max(j, begin));
                skipTo = max(alignDown(min(min(whole.end, reachedEnd), j)), skipFrom);
                for (int step = skipFrom; step < skipTo; step += int(stepKeys)) takeStep(step, 0xffffffffu, false);
            }
            any = begin < to && stretch.begin < to;
            done = stretch.begin >= to;
        }
#endif
        if (any) takeStretch(begin, hasSkipsHere ? j : to, skipFrom, skipTo);
        if (done) break;
    } while (hasSkipsHere);
}

// Steps [from, to), of which every row sees [wholeFrom, wholeTo).
void takeSteps(int from, int to, int wholeFrom, int wholeTo) {
    takeWholeSteps(wholeFrom, wholeTo);
    takeTestedSteps(from, to, wholeFrom, wholeTo);
}
// The same, with what dropout draws.
void takeKeys(int begin, int end, int wholeBegin, int wholeEnd) {
    int tile = begin / int(drawnKeys) * int(drawnKeys);
    do {
        int from = begin, to = end, wholeFrom = wholeBegin, wholeTo = wholeEnd;
        if (drops) {
            if (tile >= end) break;
            drawKept(tile);
            from = max(tile, begin), to = min(tile + int(drawnKeys), end);
            wholeFrom = clamp(wholeBegin, from, max(to, from));
            const bool masks = looksForNonFinite && nonFiniteTile == begin / int(tileKeys) + 1;
            wholeTo = masks ? wholeFrom : clamp(wholeEnd, wholeFrom, max(to, wholeFrom));
        }
        takeSteps(from, to, wholeFrom, wholeTo);
        tile += int(drawnKeys);
    } while (drops);
}

bool isNonFinite(float x) { return !isFiniteBits(floatBitsToUint(x)); }

// With `looks`, sets `found` where an element is not finite. A lane loads several elements before it
// stores one, so that GPUs wait for them together; where edges are rolled, a CPU device's compiler gets
// one at a time.
const uint stagedAtOnce = rolledEdges ? 1u : 8u, pairsAtOnce = rolledEdges ? 1u : 4u;
#define STAGE(atOnce, count, Loaded, LOAD_, STORE_)                                                                                        \
    for (uint first_ = lane; first_ < (count); first_ += gl_WorkGroupSize.x * atOnce) {                                                    \
        Loaded loaded_[atOnce];                                                                                                            \
        [[unroll]] for (uint e_ = 0u; e_ < atOnce; ++e_) {                                                                                 \
            const uint n = min(first_ + e_ * gl_WorkGroupSize.x, (count)-1u);                                                              \
            loaded_[e_] = LOAD_;                                                                                                           \
        }                                                                                                                                  \
        [[unroll]] for (uint e_ = 0u; e_ < atOnce; ++e_) {                                                                                 \
            const uint n = first_ + e_ * gl_WorkGroupSize.x;                                                                               \
            if (n < (count)) STORE_                                                                                                        \
        }                                                                                                                                  \
    }
#define STAGE_TILE(into, count, inWords, rowOf_, pair, element, looks)                                                                     \
    if (inWords) {                                                                                                                         \
        STAGE(pairsAtOnce, tileKeys * (count) / 2u, vec2, pair(rowOf_(tile + int(n / ((count) / 2u))), n % ((count) / 2u) * 2u), {         \
            into[2u * n] = loaded_[e_].x;                                                                                                  \
            into[2u * n + 1u] = loaded_[e_].y;                                                                                             \
            if (looks) found = found || isNonFinite(loaded_[e_].x) || isNonFinite(loaded_[e_].y);                                          \
        })                                                                                                                                 \
    } else {                                                                                                                               \
        STAGE(stagedAtOnce, tileKeys * (count), float, element(rowOf_(tile + int(n / (count))), n % (count)), {                            \
            into[n] = loaded_[e_];                                                                                                         \
            if (looks) found = found || isNonFinite(loaded_[e_]);                                                                          \
        })                                                                                                                                 \
    }

void stageTile(int tile) {
    barrier();
    bool found = false;
    STAGE_TILE(kTile, keyPitch, keysInWords, keyRow, KEY_PAIR, keyElement, looksForNonFinite && valuesInKeys)
    if (ownValues) {
        STAGE_TILE(vTile, paddedValueDim, valuesInWords, valueRow, VALUE_PAIR, valueElement, looksForNonFinite)
    }
    if (looksForNonFinite && found) nonFiniteTile = tile / int(tileKeys) + 1;
    barrier();
}

// Of dims past the lane's last one, the block loads that one again. With selects: every index into
// the array is a constant.
void loadQueryBlock(uint row, uint block) {
    const uint at = queryAt(laneRow(row));
    [[unroll]] for (uint e = 0u; e < blockDims; ++e) {
        const float value = loadQuery(at, min(block * blockDims + e, dimsPerLane - 1u));
        [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r)
            [[unroll]] for (uint b = 0u; b < dimBlocks; ++b) {
                const uint n = min(b * blockDims + e, dimsPerLane - 1u);
                const bool here = r == row && b == block && b * blockDims + e < dimsPerLane;
                query[r * dimsPerLane + n] = here ? value : query[r * dimsPerLane + n];
            }
    }
}

#include "flash/store.glsl"

void main() {
    lane = gl_LocalInvocationID.x;
    dimLane = lane % dimLanes;
    keyLane = lane / dimLanes % keyLanes;
    rowLane = lane / dimLanes / keyLanes;
    if (!beginTile(tileRows)) return;

    // The split's keys, in whole steps from key 0 of the sequence: which keys share a step depends
    // on nothing else.
    const Reach reach = reachOfRows(tileRow, tileRowEnd - 1u);
    const int begin = alignDown(reach.begin), end = reach.end;
    const int wholeBegin = min(alignDown(reach.wholeBegin + int(stepKeys) - 1), max(end, 0));
    // Whole steps come before those that begin a window: where bits must not depend on which rows
    // share a workgroup, none is taken as whole.
    const bool noWholes = anyPairHidden || (flags & flagFixedOrder) != 0u;
    const int wholeEnd = noWholes ? wholeBegin : max(alignDown(max(reach.wholeEnd, 0)), wholeBegin);

    beginSkips();
    reachedBegin = reach.wholeBegin;
    reachedEnd = (flags & flagFixedOrder) != 0u ? reach.wholeBegin : min(reach.wholeEnd, end);
    [[unroll]] for (uint r = 0u; r < rowsPerLane; ++r) {
        rows[r] = rowAt(laneRow(r));
        maximum[r] = sumless ? 0.0 : lowest;
        weightSum[r] = 0.0;
        worst[r] = 0u;
    }
    if (rolledEdges) {
        for (uint n = 0u; n < rowsPerLane * dimsPerLane; ++n) query[n] = loadQuery(queryAt(laneRow(n / dimsPerLane)), n % dimsPerLane);
        for (uint n = 0u; n < rowsPerLane * valueDimsPerLane; ++n) sums[n] = 0.0;
    } else {
        // A loop over rows and blocks of dims: as many loads as a block has.
        [[unroll]] for (uint n = 0u; n < rowsPerLane * dimsPerLane; ++n) query[n] = 0.0;
        [[unroll]] for (uint n = 0u; n < rowsPerLane * valueDimsPerLane; ++n) sums[n] = 0.0;
        [[dont_unroll]] for (uint row = 0u; row < rowsPerLane; ++row) {
            if (wholeEdges && dimBlocks == 1u)
                loadQueryBlock(row, 0u);
            else
                [[dont_unroll]] for (uint block = 0u; block < dimBlocks; ++block) loadQueryBlock(row, block);
        }
    }

    if (source == sourceShared) {
        if (looksForNonFinite && lane == 0u) nonFiniteTile = 0; // the first tile begins with a barrier
    }
    Stretch stretch = Stretch(0, 0); // with rules, what is visited next
    int tile = begin / int(tileKeys) * int(tileKeys);
    do {
        int from = begin, to = end, wholeFrom = wholeBegin, wholeTo = wholeEnd;
        if (source == sourceShared) {
            if (tile >= end) break;
#ifdef VKATTN_LENGTHS_BOUND
            if (hasSkips) {
                if (tile >= stretch.end) {
                    stretch = nextKeys(max(tile, begin), end);
                    if (stretch.begin >= end) break;
                }
                tile = max(tile, stretch.begin / int(tileKeys) * int(tileKeys));
            }
#endif
            stageTile(tile);
            from = max(tile, begin), to = min(tile + int(tileKeys), end);
            wholeFrom = clamp(wholeBegin, from, max(to, from)), wholeTo = clamp(wholeEnd, wholeFrom, max(to, wholeFrom));
        }
        takeKeys(from, to, wholeFrom, wholeTo);
        tile += int(tileKeys);
    } while (source == sourceShared);
    storeRows();
}
