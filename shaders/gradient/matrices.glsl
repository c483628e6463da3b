// The backward pass of attention on matrix units (VK_KHR_cooperative_matrix), for rows_matrices.comp
// and keys_matrices.comp: as gradient/tiles.glsl (Dao et al. 2022, algorithm 4), with all products as
// matrices, and shared memory between them as in flash/matrices.comp. Subgroups own items, query rows
// or keys, whose operands they keep in matrices or, where sums of as many dims leave no registers for
// them, in shared memory; the items of the other side pass by in tiles. Of a tile:
//     dots of the head dims and of the value dims into shared memory, where each lane knows which
//         pair it holds
//     P and dz in registers; back into the same memory, rounded to the type of the inputs
//     sums of the gradients += P or dz times the tile, in registers over all tiles
//
// dz has no bound that f16 holds. An item's dz are multiplied by a power of two before they are
// rounded, so that the largest of them so far lies between 2^13 and 2^15; what is smaller than 2^-36
// of the largest may be lost (docs/numerics.md). Where a tile has a larger one, the item's sums are
// multiplied down, as flash/matrices.comp does where a maximum grows.
//
// A pair that adds nothing has a weight of -0. But -0 * NaN is NaN: where a tile has such pairs and
// values that are not finite, these become 0 after the dots, and ADD_NON_FINITE adds them to the items
// that see them. A P or dz that is not finite makes the item's gradient NaN, by integer tests.
//
// Before it is included, the shaders define which side owns (VKATTN_OWNS_KEYS). Defines: VKATTN_BF16:
// q, k, v and dOut are bf16, not f16.
#define VKATTN_STAGE_GRADIENT
#include "lib/platform.glsl"
#include "lib/matrices.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
const bool wholeWords = (form & formMatrixWords) != 0u, lockstep = (form & formMatrixLockstep) != 0u, exactDims = false;
const bool ownedShared = (form & formMatrixOwnedShared) != 0u; // where owned operands are

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"
#include "attention/query_rows.glsl"
#include "attention/pair.glsl"
#include "attention/dropout.glsl"
#include "attention/matrix_lanes.glsl"
#include "attention/matrix_inputs.glsl"
#include "attention/turns.glsl"
#include "gradient/pass.glsl"

const uint tileOwned = subgroups * subgroupRows;
const uint tileBlocks = tileKeys / matrixN, weightBlocks = tileKeys / matrixK;
const uint headBlocks = paddedDim / matrixK, valueBlocks = paddedValueDim / matrixK;
const uint headSumBlocks = paddedDim / matrixN, valueSumBlocks = paddedValueDim / matrixN;

uvec4 queryEight(RowAt row, uint dim) { return EIGHT_BITS(q, row.at, dim, qDim, headDim); }
uvec4 dOutEight(RowAt row, uint dim) { return EIGHT_BITS(dOut, row.at, dim, oDim, valueDim); }

#ifdef VKATTN_OWNS_KEYS
#define OWNED_HEAD(item, dim) keyEight(keyRow(item), dim)
#define OWNED_VALUE(item, dim) valueEight(valueRow(item), dim)
#define PASSING_HEAD(item, dim) queryEight(queryRow(item), dim)
#define PASSING_VALUE(item, dim) dOutEight(dOutRow(item), dim)
#define PASSING_HEAD_BITS(item, dim) ELEMENT_BITS(q, queryRow(item).at + (dim) * qDim)
#define PASSING_VALUE_BITS(item, dim) ELEMENT_BITS(dOut, dOutRow(item).at + (dim) * oDim)
#else
#define OWNED_HEAD(item, dim) queryEight(queryRow(item), dim)
#define OWNED_VALUE(item, dim) dOutEight(dOutRow(item), dim)
#define PASSING_HEAD(item, dim) keyEight(keyRow(item), dim)
#define PASSING_VALUE(item, dim) valueEight(valueRow(item), dim)
#define PASSING_HEAD_BITS(item, dim) ELEMENT_BITS(k, keyRow(item).at + (dim) * kDim)
#endif

// Shared memory in pieces of 16 bytes, as in flash/tiles.glsl.
const uint headPitch = paddedDim / 8u + 1u, valuePitch = paddedValueDim / 8u + 1u;
shared uvec4 headTile[tileKeys * headPitch];
shared uvec4 valueTile[tileKeys * valuePitch];
// Of each subgroup: an item has tileKeys dots of head dims in f32, then those of value dims. The first
// half of the one becomes dz, and the first half of the other P. Behind dz is room for a matrixN wide
// matrix in f32. The last piece is for the item's end.
const uint flowsAt = tileKeys / 4u, wideAt = tileKeys / 8u, endAt = tileKeys / 2u, pairPitch = tileKeys / 2u + 1u;
shared uvec4 pairTile[tileOwned * pairPitch];
shared uvec4 ownedHeadTile[ownedShared ? tileOwned * headPitch : 1u], ownedValueTile[ownedShared ? tileOwned * valuePitch : 1u];
// What of the tile staged last is not all finite: of even and odd tiles.
const uint ofHead = 1u, ofValue = 2u;
shared uint nonFinite[2];
#ifdef VKATTN_OWNS_KEYS
shared uvec4 factTile[tileKeys]; // rowFactWords of each row
#endif

Queries ownedHead[ownedShared ? 1u : rowBlocks * headBlocks], ownedValue[ownedShared ? 1u : rowBlocks * valueBlocks];
Sums headSums[rowBlocks * headSumBlocks]; // times the scale of the item's dz
#ifdef VKATTN_OWNS_KEYS
Sums valueSums[rowBlocks * valueSumBlocks]; // times weightScale
#else
RowSums ownedSums[laneRows];
Row ownedRows[laneRows];
RowTotals totals[laneRows]; // of the lane's keys
#endif
// Biased exponents of what dz are multiplied by, the same in all parts of an item. At first the
// largest: f16 then holds what fp32 does.
const uint largestScale = 237u, leastScale = 12u;
uint scaleExponent[laneRows];
uint bad[laneRows]; // ofHead, ofValue: the lane has found a dz or P that is not finite
uint seen[laneRows * seenWords]; // of the tile: bit of the lane's n-th item

int tileFirst, firstOwned, ownedLast; // item of the workgroup, of the subgroup; the last there is
uint pairsAt, parity;

int itemOf(uint r) { return firstOwned + int(tileRowOf(r)); }
int laneItem(uint r) { return max(min(itemOf(r), ownedLast), 0); }

// Each subgroup loads and reads its own items.
#define LOAD_OWNED(into, blocks, shared_, pitch, EIGHT)                                                                                    \
    if (ownedShared) {                                                                                                                     \
        for (uint n = lane; n < subgroupRows * ((pitch)-1u); n += subgroupLanes) {                                                         \
            const uint item = gl_SubgroupID * subgroupRows + n / ((pitch)-1u), piece = n % ((pitch)-1u);                                   \
            shared_[item * (pitch) + piece] = EIGHT(max(min(tileFirst + int(item), ownedLast), 0), piece * 8u);                            \
        }                                                                                                                                  \
        subgroupSync();                                                                                                                    \
    } else {                                                                                                                               \
        [[dont_unroll]] for (uint d = 0u; d < (blocks); ++d) {                                                                             \
            const uint pieces_ = matrixK / 8u;                                                                                             \
            for (uint n = lane; n < subgroupRows * pieces_; n += subgroupLanes)                                                            \
                pairTile[pairsAt + n / pieces_ * pairPitch + n % pieces_] =                                                                \
                    EIGHT(max(min(firstOwned + int(n / pieces_), ownedLast), 0), d * matrixK + n % pieces_ * 8u);                          \
            subgroupSync();                                                                                                                \
            [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)                                                                               \
                PICKED(e, blocks, d,                                                                                                       \
                       coopMatLoad(into[b * (blocks) + e], pairTile, pairsAt + b * matrixM * pairPitch, pairPitch,                          \
                                   gl_CooperativeMatrixLayoutRowMajor))                                                                    \
            subgroupSync();                                                                                                                \
        }                                                                                                                                  \
    }

void beginSums() {
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) scaleExponent[r] = largestScale, bad[r] = 0u;
    EACH_BLOCK(n, rowBlocks * headSumBlocks, headSums[n] = Sums(0.0))
#ifdef VKATTN_OWNS_KEYS
    EACH_BLOCK(n, rowBlocks * valueSumBlocks, valueSums[n] = Sums(0.0))
#endif
}

// Pieces of a tile, from memory into shared memory: a lane loads several before it stores one, as in
// flash/tiles.glsl. Items from `first` on; those from `end` on are 0.
const uint loadsAtOnce = lockstep ? 1u : 4u;
#define STAGE_PIECES(tile_, pitch, EIGHT, found)                                                                                           \
    for (uint from_ = gl_LocalInvocationID.x; from_ < tileKeys * ((pitch)-1u); from_ += gl_WorkGroupSize.x * loadsAtOnce) {                \
        uvec4 loaded_[loadsAtOnce];                                                                                                        \
        [[unroll]] for (uint e_ = 0u; e_ < loadsAtOnce; ++e_) {                                                                            \
            const uint piece_ = min(from_ + e_ * gl_WorkGroupSize.x, tileKeys * ((pitch)-1u) - 1u);                                        \
            const int item_ = first + int(piece_ / ((pitch)-1u));                                                                          \
            const uvec4 bits_ = EIGHT(item_, piece_ % ((pitch)-1u) * 8u);                                                                  \
            loaded_[e_] = item_ < end ? bits_ : uvec4(0u);                                                                                 \
        }                                                                                                                                  \
        [[unroll]] for (uint e_ = 0u; e_ < loadsAtOnce; ++e_) {                                                                            \
            const uint piece_ = from_ + e_ * gl_WorkGroupSize.x;                                                                           \
            if ((found) != 0u && mixed && finiteEight(loaded_[e_]) != loaded_[e_]) atomicOr(nonFinite[parity], found);                     \
            if (piece_ < tileKeys * ((pitch)-1u)) tile_[piece_ / ((pitch)-1u) * (pitch) + piece_ % ((pitch)-1u)] = loaded_[e_];            \
        }                                                                                                                                  \
    }
#ifdef VKATTN_OWNS_KEYS
const uint foundOfValues = ofValue;
#else
const uint foundOfValues = 0u;
#endif
// mixed: some pairs may add nothing.
void stageTile(int first, int end, const bool mixed) {
    barrier(); // all are done with the tile before
    STAGE_PIECES(headTile, headPitch, PASSING_HEAD, ofHead)
    STAGE_PIECES(valueTile, valuePitch, PASSING_VALUE, foundOfValues)
#ifdef VKATTN_OWNS_KEYS
    for (uint n = gl_LocalInvocationID.x; n < tileKeys; n += gl_WorkGroupSize.x) {
        const uint at = factsAt + heldRow(first + int(n)) * rowFactWords;
        factTile[n] = uvec4(rowFacts[at], rowFacts[at + 1u], rowFacts[at + 2u], rowFacts[at + 3u]);
    }
#endif
    barrier();
    // Nobody looks at the other one now; what sets it comes after the next barrier.
    if (gl_LocalInvocationID.x == 0u) nonFinite[1u - parity] = 0u;
}
void keepFinite() {
    for (uint n = gl_LocalInvocationID.x; n < tileKeys * headPitch; n += gl_WorkGroupSize.x) headTile[n] = finiteEight(headTile[n]);
    for (uint n = gl_LocalInvocationID.x; n < tileKeys * valuePitch; n += gl_WorkGroupSize.x) valueTile[n] = finiteEight(valueTile[n]);
}

// The row and the key of the lane's r-th item with item `item` that passes by.
#ifdef VKATTN_OWNS_KEYS
Row passingRow(uint head, int row) {
    Row passing = rowOf(head, heldRow(row));
    if (row >= int(rowCount)) passing.end = 0; // repeats the last row, and is seen by nobody
    return passing;
}
#define ROW_OF(r, item) passingRow(head, item)
#define KEY_OF(r, item) laneItem(r)
RowSums sumsOf(uvec4 facts) {
    return RowSums(uintBitsToFloat(facts[factMaximum]), uintBitsToFloat(facts[factInverseSum]), uintBitsToFloat(facts[factDelta]));
}
#define SUMS_OF(r, item) sumsOf(factTile[(item)-first])
#else
#define ROW_OF(r, item) ownedRows[r]
#define KEY_OF(r, item) (item)
#define SUMS_OF(r, item) ownedSums[r]
#endif

// Fills `seen`; false where no pair of the subgroup is visible.
bool lookAtPairs(uint head, int first) {
    uint any = 0u;
    [[unroll]] for (uint r = 0u; r < laneRows; ++r)
        [[unroll]] for (uint w = 0u; w < seenWords; ++w) {
            uint bits = 0u;
            for (uint n = w * 32u; n < min(w * 32u + 32u, keysOfLane); ++n) {
                const int item = first + int(keyOf(n));
                float added = 0.0;
                bits |= pairVisible(ROW_OF(r, item), KEY_OF(r, item), added) ? 1u << (n - w * 32u) : 0u;
            }
            seen[r * seenWords + w] = bits;
            any |= bits;
        }
    return subgroupAny(any != 0u);
}

// dots[b] += the d-th matrix of what is owned times that of the n-th items that pass by.
#define MULTIPLY_BLOCK(owned, blocks, ownedTile_, tile_, pitch)                                                                            \
    {                                                                                                                                      \
        coopmat<Input, gl_ScopeSubgroup, matrixK, matrixN, gl_MatrixUseB> passing;                                                         \
        coopMatLoad(passing, tile_, n * matrixN * (pitch) + d * (matrixK / 8u), pitch, gl_CooperativeMatrixLayoutColumnMajor);             \
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {                                                                                 \
            if (ownedShared) {                                                                                                             \
                Queries own_;                                                                                                              \
                coopMatLoad(own_, ownedTile_, (gl_SubgroupID * subgroupRows + b * matrixM) * (pitch) + d * (matrixK / 8u), pitch,          \
                            gl_CooperativeMatrixLayoutRowMajor);                                                                           \
                dots[b] = coopMatMulAdd(own_, passing, dots[b]);                                                                           \
            } else                                                                                                                         \
                dots[b] = coopMatMulAdd(owned[b * (blocks) + d], passing, dots[b]);                                                        \
        }                                                                                                                                  \
    }
void multiplyHead(uint n, uint d, inout Sums dots[rowBlocks])
    MULTIPLY_BLOCK(ownedHead, headBlocks, ownedHeadTile, headTile, headPitch)
void multiplyValue(uint n, uint d, inout Sums dots[rowBlocks])
    MULTIPLY_BLOCK(ownedValue, valueBlocks, ownedValueTile, valueTile, valuePitch)
void storeDots(uint n, uint at, const Sums dots[rowBlocks]) {
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        coopMatStore(dots[b], pairTile, pairsAt + b * matrixM * pairPitch + at + n * (matrixN / 4u), pairPitch,
                     gl_CooperativeMatrixLayoutRowMajor);
}
void multiplyItems(uint n) {
    Sums dots[rowBlocks], flows[rowBlocks];
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) dots[b] = flows[b] = Sums(0.0);
    EACH_BLOCK_OR_ROLLED(ownedShared, d, headBlocks, multiplyHead(n, d, dots))
    storeDots(n, 0u, dots);
    EACH_BLOCK_OR_ROLLED(ownedShared, d, valueBlocks, multiplyValue(n, d, flows))
    storeDots(n, flowsAt, flows);
}

// Two weights, rounded; a mark where the pair adds nothing.
uint packWeights(float a, float b, bool addsA, bool addsB) {
    const uint bits = packInputs(addsA ? a : 0.0, addsB ? b : 0.0), low = bits & 0xffffu, high = bits >> 16;
    return (!addsA ? hiddenWeight : low == hiddenWeight ? 0u : low) | (!addsB ? hiddenWeight : high == hiddenWeight ? 0u : high) << 16;
}
// Not finite: noted, and 0 in the product.
float finiteWeight(float weight, uint of, inout uint bad_) {
    const bool finite = isFiniteBits(floatBitsToUint(weight));
    bad_ |= finite ? 0u : of;
    return finite ? weight : 0.0;
}

// Of the tile: dz of the lane's pairs, and P; 0 where not finite.
float plains[laneRows * keysOfLane];
#ifdef VKATTN_OWNS_KEYS
const float unused = -1.0; // in the place of the P of a pair that adds nothing to dV: no P is negative
float weights[laneRows * keysOfLane];
#endif

// From the dots of four pairs of the lane's r-th item, from its n-th on.
void takeFour(uint head, int first, const bool tested, uint r, uint n) {
    const uint place = pairsAt + tileRowOf(r) * pairPitch;
    const uvec4 dots = pairTile[place + keyOf(n) / 4u], flows = pairTile[place + flowsAt + keyOf(n) / 4u];
#ifndef VKATTN_OWNS_KEYS
    uint keptKeys = 0xfu;
    if (drops) keptKeys = keptOfBlock(head, uint(laneItem(r)), (uint(first) + keyOf(n)) / 4u);
#endif
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
        const int item = first + int(keyOf(n) + e);
        const uint at = r * keysOfLane + n + e;
        const bool visible = !tested || (seen[r * seenWords + (n + e) / 32u] >> ((n + e) % 32u) & 1u) != 0u;
        const Row row = ROW_OF(r, item);
        const int key = KEY_OF(r, item);
#ifdef VKATTN_OWNS_KEYS
        uint keptKeys = 0xfu;
        if (drops) keptKeys = keptOfBlock(head, heldRow(item), uint(key) / 4u);
        const bool kept = (keptKeys >> uint(key) % 4u & 1u) != 0u;
#else
        const bool kept = (keptKeys >> e & 1u) != 0u;
#endif
        const float dot = uintBitsToFloat(dots[e]);
        const PairGradient pair =
            pairGradient(row, SUMS_OF(r, item), key, dot, uintBitsToFloat(flows[e]), pairBias(row, key), visible, kept);
        plains[at] = finiteWeight(pair.plain, ofHead, bad[r]);
#ifdef VKATTN_OWNS_KEYS
        weights[at] = unused;
        if (visible && kept) weights[at] = min(finiteWeight(pair.weight, ofValue, bad[r]), 31.0); // P is at most 1
#else
        if (rowSumsWanted) addToTotals(totals[r], row, key, pair, dot, visible);
#endif
    }
}
// The lane's eight pairs of item r from the n-th on, rounded, into shared memory.
void packEight(const bool tested, uint r, uint n) {
    const uint place = pairsAt + tileRowOf(r) * pairPitch + keyOf(n) / 8u, from = r * keysOfLane + n;
    const float by = uintBitsToFloat(scaleExponent[r] << 23);
    uvec4 bits;
    [[unroll]] for (uint e = 0u; e < 8u; e += 2u) {
        const uint sees = tested ? seen[r * seenWords + n / 32u] >> ((n + e) % 32u) : 3u;
        bits[e / 2u] = packWeights(plains[from + e] * by, plains[from + e + 1u] * by, (sees & 1u) != 0u, (sees & 2u) != 0u);
    }
    pairTile[place] = bits;
#ifdef VKATTN_OWNS_KEYS
    [[unroll]] for (uint e = 0u; e < 8u; e += 2u) {
        const float one = weights[from + e], other = weights[from + e + 1u];
        bits[e / 2u] = packWeights(one * weightScale, other * weightScale, one != unused, other != unused);
    }
    pairTile[place + flowsAt] = bits;
#endif
}

// Dots in shared memory become P and dz there. True where items need their sums rescaled: their
// factors then lie behind dz.
bool takePairs(uint head, int first, const bool tested) {
    uint factors[laneRows];
    bool grown = false;
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        EACH_BLOCK(n, keysOfLane / 4u, takeFour(head, first, tested, r, n * 4u))
        uint top = 0u;
        [[unroll]] for (uint n = 0u; n < keysOfLane; ++n) top = max(top, floatBitsToUint(plains[r * keysOfLane + n]) & 0x7fffffffu);
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (rowParts >> bit > 1u) top = max(top, subgroupShuffleXor(top, subgroupRows << bit));
        const uint exponent = top >> 23, before = scaleExponent[r];
        const bool grows = exponent + before > 268u; // 2^15 and above
        if (grows) scaleExponent[r] = max(267u - exponent, leastScale);
        factors[r] = before - scaleExponent[r] < 127u ? 127u - (before - scaleExponent[r]) << 23 : 0u;
        grown = grown || grows;
    }
    subgroupSync(); // P and dz take the place of dots
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        EACH_BLOCK(n, keysOfLane / 8u, packEight(tested, r, n * 8u))
    }
    const bool anyGrown = subgroupAny(grown), rescales = headWanted && anyGrown;
    if (rescales)
        [[unroll]] for (uint r = 0u; r < laneRows; ++r)
            for (uint n = part(); n < matrixN / 4u; n += rowParts)
                pairTile[pairsAt + tileRowOf(r) * pairPitch + wideAt + n] = uvec4(factors[r]);
    subgroupSync();
    return rescales;
}

#define LOAD_WIDE(into, b)                                                                                                                 \
    coopMatLoad(into, pairTile, pairsAt + (b) * matrixM * pairPitch + wideAt, pairPitch, gl_CooperativeMatrixLayoutRowMajor)

void rescaleSums() {
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {
        Sums factors;
        LOAD_WIDE(factors, b);
        EACH_BLOCK(n, headSumBlocks, headSums[b * headSumBlocks + n] = headSums[b * headSumBlocks + n] * factors)
    }
}

// `sums` += the weights at `weightsAt` times the tile.
#define ADD_BLOCK(sums, blocks, tile_, pitch, c, n)                                                                                        \
    {                                                                                                                                      \
        coopmat<Input, gl_ScopeSubgroup, matrixK, matrixN, gl_MatrixUseB> passing;                                                         \
        coopMatLoad(passing, tile_, (c) * matrixK * (pitch) + (n) * (matrixN / 8u), pitch, gl_CooperativeMatrixLayoutRowMajor);            \
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)                                                                                   \
            sums[b * (blocks) + n] = coopMatMulAdd(weights[b], passing, sums[b * (blocks) + n]);                                           \
    }
void loadWeights(uint at, uint c, out Queries weights[rowBlocks]) {
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        coopMatLoad(weights[b], pairTile, pairsAt + b * matrixM * pairPitch + at + c * (matrixK / 8u), pairPitch,
                    gl_CooperativeMatrixLayoutRowMajor);
}
void addHeadBlock(uint c, uint n, const Queries weights[rowBlocks]) ADD_BLOCK(headSums, headSumBlocks, headTile, headPitch, c, n)
void addHead(uint c) {
    Queries weights[rowBlocks];
    loadWeights(0u, c, weights);
    EACH_BLOCK(n, headSumBlocks, addHeadBlock(c, n, weights))
}
#ifdef VKATTN_OWNS_KEYS
void addValueBlock(uint c, uint n, const Queries weights[rowBlocks]) ADD_BLOCK(valueSums, valueSumBlocks, valueTile, valuePitch, c, n)
void addValue(uint c) {
    Queries weights[rowBlocks];
    loadWeights(flowsAt, c, weights);
    EACH_BLOCK(n, valueSumBlocks, addValueBlock(c, n, weights))
}
#endif

// What of the tile is not finite, to the items that see it: mostly there is none, and this is not run.
#define ADD_NON_FINITE(sums, blocks, count, weightsAt, BITS)                                                                               \
    [[dont_unroll]] for (uint block = 0u; block < (blocks); ++block) {                                                                     \
        subgroupSync();                                                                                                                    \
        for (uint n = lane; n < subgroupRows * matrixN; n += subgroupLanes) {                                                              \
            const uint place = pairsAt + n / matrixN * pairPitch, dim = block * matrixN + n % matrixN;                                     \
            float sum = 0.0;                                                                                                               \
            [[dont_unroll]] for (uint j = 0u; j < tileKeys; ++j) {                                                                         \
                const int item = first + int(j);                                                                                           \
                const uint weight = pairTile[place + (weightsAt) + j / 8u][j / 2u % 4u] >> ((j & 1u) << 4) & 0xffffu;                      \
                if (dim >= (count) || item >= end || weight == hiddenWeight) continue;                                                     \
                const uint bits = BITS(item, dim);                                                                                         \
                if (!finiteBits(bits)) sum = fma(halfWidthToFloat(inputType, weight), halfWidthToFloat(inputType, bits), sum);             \
            }                                                                                                                              \
            pairTile[place + wideAt + n % matrixN / 4u][n % 4u] = floatBitsToUint(sum);                                                    \
        }                                                                                                                                  \
        subgroupSync();                                                                                                                    \
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {                                                                                 \
            Sums added;                                                                                                                    \
            LOAD_WIDE(added, b);                                                                                                           \
            PICKED(n, blocks, block, sums[b * (blocks) + n] += added)                                                                      \
        }                                                                                                                                  \
    }

// Items of the other side that some of the items at hand see, and those that all of them see.
struct Range {
    int begin, end, wholeBegin, wholeEnd;
};

int alignDown(int item) { return item / int(tileKeys) * int(tileKeys); }

// All that passes by of a head: `all` of the workgroup, `own` of the subgroup.
void takeHead(uint head, Range all, Range own) {
    const bool hides = anyPairHidden
#ifdef VKATTN_OWNS_KEYS
                       || drops
#endif
        ;
    const int end = all.end;
    Stretch stretch = Stretch(0, 0); // with rules, what is visited next
    for (int first = alignDown(max(all.begin, 0)); first < end; first += int(tileKeys)) {
        if (hasSkips) {
            if (first >= stretch.end) {
                stretch = NEXT_ITEMS(head, first, end);
                if (stretch.begin >= end) break;
            }
            first = max(first, alignDown(stretch.begin));
        }
        stageTile(first, end, hides || first < all.wholeBegin || first + int(tileKeys) > all.wholeEnd);
        const bool tested = anyPairHidden || first < own.wholeBegin || first + int(tileKeys) > own.wholeEnd;
        bool visible = firstOwned <= ownedLast && first < own.end && first + int(tileKeys) > own.begin;
        if (visible && tested) visible = lookAtPairs(head, first);
        if (visible) {
            EACH_BLOCK_OR_ROLLED(ownedShared, n, tileBlocks, multiplyItems(n))
            subgroupSync();
            if (takePairs(head, first, tested)) rescaleSums();
        }
        // The same for the whole workgroup.
        const uint found = nonFinite[parity];
        if (found != 0u) {
            barrier();
            keepFinite();
            barrier();
        }
        if (visible) {
            if (headWanted) {
                EACH_BLOCK(c, weightBlocks, addHead(c))
                if ((found & ofHead) != 0u) ADD_NON_FINITE(headSums, headSumBlocks, headDim, 0u, PASSING_HEAD_BITS)
            }
#ifdef VKATTN_OWNS_KEYS
            if (valueWanted) {
                EACH_BLOCK(c, weightBlocks, addValue(c))
                if ((found & ofValue) != 0u) ADD_NON_FINITE(valueSums, valueSumBlocks, valueDim, flowsAt, PASSING_VALUE_BITS)
            }
#endif
            subgroupSync(); // weights were read
        }
        parity = 1u - parity;
    }
}

// At the end of an item, where no dot lies: what its dQ or dK is multiplied with, and whether its
// gradients are NaN.
void storeEnds() {
    subgroupSync();
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (rowParts >> bit > 1u) bad[r] |= subgroupShuffleXor(bad[r], subgroupRows << bit);
        if (part() == 0u) pairTile[pairsAt + tileRowOf(r) * pairPitch + endAt] = uvec4(254u - scaleExponent[r] << 23, bad[r], 0u, 0u);
    }
}

// `unscale`: of an item's last piece `end_`. Items past the last one up to `stored` get zeros.
#define STORE_SUMS(sums, blocks, words, type, count, baseAt, strides, unscale, by, of)                                                     \
    [[dont_unroll]] for (uint block = 0u; block < (blocks); block += tileBlocks) {                                                         \
        const uint columns = min(tileBlocks, (blocks)-block) * matrixN;                                                                    \
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)                                                                                   \
            PICKED(n, blocks, block + n % tileBlocks,                                                                                      \
                   coopMatStore(sums[b * (blocks) + n], pairTile,                                                                          \
                                pairsAt + b * matrixM * pairPitch + n % tileBlocks * (matrixN / 4u), pairPitch,                            \
                                gl_CooperativeMatrixLayoutRowMajor))                                                                       \
        subgroupSync();                                                                                                                    \
        for (uint n = lane; n < subgroupRows * (columns / 2u); n += subgroupLanes) {                                                       \
            const uint place = pairsAt + n / (columns / 2u) * pairPitch, column = n % (columns / 2u) * 2u, dim = block * matrixN + column; \
            const int item = firstOwned + int(n / (columns / 2u));                                                                         \
            if (item >= int(stored) || dim >= (count)) continue;                                                                           \
            const uvec4 end_ = pairTile[place + endAt], piece = pairTile[place + column / 4u];                                             \
            const vec2 ended = uintBitsToFloat(column % 4u == 0u ? piece.xy : piece.zw) * (unscale) * (by);                                \
            const bool zero = item > ownedLast, undefined = (end_.y & (of)) != 0u;                                                         \
            const float first_ = zero ? 0.0 : undefined ? uintBitsToFloat(canonicalNanBits) : ended.x;                                     \
            const float second_ = zero ? 0.0 : undefined ? uintBitsToFloat(canonicalNanBits) : ended.y;                                    \
            const uint at_ = (baseAt) + uint(item) * (strides).token;                                                                      \
            STORE_DIMS(words, type, at_, (strides).dim, dim, count, true, first_, second_)                                                 \
        }                                                                                                                                  \
        subgroupSync();                                                                                                                    \
    }

void beginSubgroup() {
    lane = gl_SubgroupInvocationID;
    headDim = dims & 0xffffu;
    valueDim = dims >> 16;
    tileFirst = int(ownedFirst + tileOfGroup() * tileOwned);
    firstOwned = tileFirst + int(gl_SubgroupID * subgroupRows);
    pairsAt = gl_SubgroupID * subgroupRows * pairPitch;
    parity = 0u;
    if (gl_LocalInvocationID.x == 0u) nonFinite[0] = 0u;
}
