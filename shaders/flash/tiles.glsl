// What matrices.comp and matrices2.comp share: all but what becomes of a tile's scores. Tiles of K
// and V in shared memory; loading of Q; who sees what; values that are not finite; storing of rows.
//
// Defines: VKATTN_BF16: inputs are bf16, not f16. Q has this type; K and V have the same, or an 8-bit float
// type. No 16-bit storage is needed, all memory is 32-bit words. VKATTN_COOPMAT2: for matrices2.comp.
#define VKATTN_STAGE_FLASH
#define VKATTN_FP8_INPUTS
#include "lib/platform.glsl"
#include "lib/matrices.glsl"

layout(constant_id = constantForm) const uint form = 0; // interop.h
const bool wholeWords = (form & formWholeWords) != 0u, lockstep = (form & formLockstep) != 0u, exactDims = false;

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"
#include "attention/pair.glsl"
#include "attention/dropout.glsl"
#include "attention/matrix_lanes.glsl"
#include "attention/matrix_inputs.glsl"
#include "flash/workgroup.glsl"

const uint keyBlocks = tileKeys / matrixN, dimBlocks = paddedDim / matrixK;
const uint weightBlocks = tileKeys / matrixK, valueBlocks = paddedValueDim / matrixN;

// Shared memory in pieces of 16 bytes, to which matrices are aligned; one more at the end of each
// row spreads rows over banks.
const uint keyPitch = paddedDim / 8u + 1u, valuePitch = paddedValueDim / 8u + 1u;
#ifdef VKATTN_COOPMAT2
const uint scorePitch = tileKeys / 4u + 1u + rowFactPieces + (pairTerms & termDropout) / termDropout;
#else
const uint scorePitch = tileKeys / 4u + 1u;
#endif
shared uvec4 keyTile[tileKeys * keyPitch];
shared uvec4 valueTile[tileKeys * valuePitch];
// Of each subgroup: a row has tileKeys scores in f32; or its weights in the first half, and behind
// them a matrixN wide matrix in f32. Then a piece for the keys that the row sees, or for the row's
// end; with VKATTN_COOPMAT2 also the facts of the row and, with dropout, a piece for the keys that it
// keeps.
shared uvec4 scoreTile[subgroups * subgroupRows * scorePitch];
const uint wideAt = tileKeys / 8u, endAt = tileKeys / 4u;
// Whether the values staged last are not all finite; of even and odd tiles.
shared uint nonFinite[2];

Queries query[rowBlocks * dimBlocks];
Sums outputs[rowBlocks * valueBlocks]; // unnormalised, times weightScale

uint firstRow, scoresAt; // of the subgroup; firstRow: counted as tileRow is
// Of the chunk; rows past the end repeat the last one and are not stored.
uint rowOfLane[laneRows];
// Kept up by matrices.comp; of matrices2.comp in matrices, and here at the end.
// What weights are relative to: the row's largest score, or up to 4 ln 2 less: times weightScale they
// stay below 2^15.
float maximum[laneRows];
float weightSum[laneRows]; // of the lane's keys
uint worst[laneRows];      // likewise
uint seen[laneRows * seenWords]; // of the tile: bit of the lane's n-th key

void loadQueries(uint block, uint d) {
    coopMatLoad(query[block * dimBlocks + d], scoreTile, scoresAt + block * matrixM * scorePitch, scorePitch,
                gl_CooperativeMatrixLayoutRowMajor);
}
void loadAllQueries() {
    const uint pieces = matrixK / 8u;
    [[dont_unroll]] for (uint d = 0u; d < dimBlocks; ++d) {
        for (uint n = lane; n < subgroupRows * pieces; n += subgroupLanes) {
            const uint at = queryAt(min(firstRow + n / pieces, rowCount - 1u)), dim = d * matrixK + n % pieces * 8u;
            scoreTile[scoresAt + n / pieces * scorePitch + n % pieces] = EIGHT_BITS(q, at, dim, qDim, headDim);
        }
        subgroupSync();
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) PICKED(e, dimBlocks, d, loadQueries(b, e))
        subgroupSync();
    }
}

// K and V of a tile on their way to shared memory: pieces of 16 bytes that a lane loads before it
// stores them, so that the loads wait for memory together and not one after the other. Where registers
// hold all of a tile's, they are loaded while the tile before is computed: on an H200 half of the time
// went into waiting for them (2026-11-26). A CPU device waits for no load.
const uint workgroupLanes = subgroups * subgroupLanes, dimPieces = paddedDim / 8u, valueDimPieces = paddedValueDim / 8u;
const uint keyPieces = tileKeys * dimPieces, valuePieces = tileKeys * valueDimPieces;
const uint keyLoads = (keyPieces + workgroupLanes - 1u) / workgroupLanes, valueLoads = (valuePieces + workgroupLanes - 1u) / workgroupLanes;
const uint mostLoadsAhead = 8u, mostLoadsAtOnce = 4u;
const bool fewLoads = keyLoads + valueLoads <= mostLoadsAhead, loadsAhead = !lockstep && fewLoads;
const uint mostAtOnce = lockstep ? 1u : loadsAhead ? mostLoadsAhead : mostLoadsAtOnce;
const uint keysAtOnce = keyLoads < mostAtOnce ? keyLoads : mostAtOnce, valuesAtOnce = valueLoads < mostAtOnce ? valueLoads : mostAtOnce;
uvec4 loadedKeys[keysAtOnce], loadedValues[valuesAtOnce];

uint pieceOf(uint n) { return gl_LocalInvocationID.x + n * workgroupLanes; }
// The lane's pieces from the `from`-th on, of the keys from `tile` on; of those past the end, 0.
#define LOAD_PIECES(loaded, atOnce, pieces, piecesOfKey, EIGHT, ROW_)                                                                      \
    {                                                                                                                                      \
        [[unroll]] for (uint n = 0u; n < (atOnce); ++n) {                                                                                  \
            const uint piece = min(pieceOf(from + n), (pieces)-1u);                                                                        \
            const int key = tile + int(piece / (piecesOfKey));                                                                             \
            const uvec4 bits = EIGHT(ROW_(key), piece % (piecesOfKey) * 8u);                                                               \
            loaded[n] = key < end ? bits : uvec4(0u);                                                                                      \
        }                                                                                                                                  \
    }
void loadKeys(int tile, int end, uint from) LOAD_PIECES(loadedKeys, keysAtOnce, keyPieces, dimPieces, keyEight, keyRow)
void loadValues(int tile, int end, uint from) LOAD_PIECES(loadedValues, valuesAtOnce, valuePieces, valueDimPieces, valueEight, valueRow)
void loadTile(int tile, int end) {
    loadKeys(tile, end, 0u);
    loadValues(tile, end, 0u);
}
void storeKeys(uint from) {
    [[unroll]] for (uint n = 0u; n < keysAtOnce; ++n) {
        const uint piece = pieceOf(from + n);
        if (piece < keyPieces) keyTile[piece / dimPieces * keyPitch + piece % dimPieces] = loadedKeys[n];
    }
}
void storeValues(uint from, const bool partlyHidden, uint parity) {
    [[unroll]] for (uint n = 0u; n < valuesAtOnce; ++n) {
        const uint piece = pieceOf(from + n);
        uvec4 bits = loadedValues[n];
        if (partlyHidden) {
            const uvec4 finite = finiteEight(bits);
            if (finite != bits) atomicOr(nonFinite[parity], 1u);
            bits = finite;
        }
        if (piece < valuePieces) valueTile[piece / valueDimPieces * valuePitch + piece % valueDimPieces] = bits;
    }
}

// Keys and values from `tile` on, which loadTile has loaded where it loads ahead.
void stageTile(int tile, int end, const bool partlyHidden, uint parity) {
    barrier(); // all are done with the tile before
    if (loadsAhead) {
        storeKeys(0u);
        storeValues(0u, partlyHidden, parity);
    } else {
        [[dont_unroll]] for (uint from = 0u; from < keyLoads; from += keysAtOnce) {
            loadKeys(tile, end, from);
            storeKeys(from);
        }
        [[dont_unroll]] for (uint from = 0u; from < valueLoads; from += valuesAtOnce) {
            loadValues(tile, end, from);
            storeValues(from, partlyHidden, parity);
        }
    }
    barrier();
    // Nobody looks at the other one now; what sets it comes after the next barrier.
    if (gl_LocalInvocationID.x == 0u) nonFinite[1u - parity] = 0u;
}

// Fills `seen`; false where the subgroup sees nothing of the tile.
bool lookAtPairs(int tile) {
    uint any = 0u;
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        const Row row = rowAt(rowOfLane[r]);
        [[unroll]] for (uint w = 0u; w < seenWords; ++w) {
            uint bits = 0u;
            for (uint n = w * 32u; n < min(w * 32u + 32u, keysOfLane); ++n) {
                const int key = tile + int(keyOf(n));
                float added = 0.0;
                bits |= pairVisible(row, key, added) ? 1u << (n - w * 32u) : 0u;
            }
            seen[r * seenWords + w] = bits;
            any |= bits;
        }
    }
    return subgroupAny(any != 0u);
}

// Bits of eight neighbouring keys, the first of them a multiple of 8, that a row keeps.
uint keptOfEight(uint row, uint firstKey) {
    const uint block = firstKey / 4u;
    return keptOfBlock(headOf(row), queryOf(row), block) | keptOfBlock(headOf(row), queryOf(row), block + 1u) << 4;
}

#define LOAD_WIDE(into, b)                                                                                                                 \
    coopMatLoad(into, scoreTile, scoresAt + (b) * matrixM * scorePitch + wideAt, scorePitch, gl_CooperativeMatrixLayoutRowMajor)

// What a kernel does of its own.
void beginRows();
// The subgroup sees something of it; tested: may not see all.
void takeTile(int tile, int end, const bool tested, uint parity);
// maximum, weightSum and worst are there for storeRows
void endRows();
#ifdef VKATTN_COOPMAT2
bool sees(uint rowPlace, uint key); // of the tile; rowPlace: of its piece in scoreTile
bool keeps(uint rowPlace, uint key);
#define HIDDEN_PAIR(rowPlace, key, weight) !(sees(rowPlace, key) && keeps(rowPlace, key))
#else
#define HIDDEN_PAIR(rowPlace, key, weight) (weight) == hiddenWeight
#endif

// The values of the tile that are not finite, to the rows that see them: mostly there are none, and
// this is not run.
void addNonFinite(int tile, int end) {
    [[dont_unroll]] for (uint block = 0u; block < valueBlocks; ++block) {
        subgroupSync();
        for (uint n = lane; n < subgroupRows * matrixN; n += subgroupLanes) {
            const uint rowPlace = scoresAt + n / matrixN * scorePitch, dim = block * matrixN + n % matrixN;
            float sum = 0.0;
            [[dont_unroll]] for (uint j = 0u; j < tileKeys; ++j) {
                const int key = tile + int(j);
                const uint weight = scoreTile[rowPlace + j / 8u][j / 2u % 4u] >> ((j & 1u) << 4) & 0xffffu;
                if (dim >= valueDim || key >= end || HIDDEN_PAIR(rowPlace, j, weight)) continue;
                const uint bits = valueBits(valueRow(key), dim);
                if (!finiteBits(bits)) sum = fma(halfWidthToFloat(inputType, weight), halfWidthToFloat(inputType, bits), sum);
            }
            scoreTile[rowPlace + wideAt + n % matrixN / 4u][n % 4u] = floatBitsToUint(sum);
        }
        subgroupSync();
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) {
            Sums added;
            LOAD_WIDE(added, b);
            PICKED(n, valueBlocks, block, outputs[b * valueBlocks + n] += added)
        }
    }
}

void storeOutputs(uint b, uint n, uint column) {
    coopMatStore(outputs[b * valueBlocks + n], scoreTile, scoresAt + b * matrixM * scorePitch + column * (matrixN / 4u), scorePitch,
                 gl_CooperativeMatrixLayoutRowMajor);
}

void storeRows() {
    subgroupSync(); // weights and wide matrices were read
    // At the end of a row, where no score lies: what its outputs are multiplied with and divided
    // by, and what else to know of it.
    const uint isEmpty = 1u, isBad = 2u;
    const bool partial = (flags & flagPartial) != 0u;
    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)
            if (rowParts >> bit > 1u) {
                weightSum[r] += subgroupShuffleXor(weightSum[r], subgroupRows << bit);
                worst[r] = max(worst[r], subgroupShuffleXor(worst[r], subgroupRows << bit));
            }
        if (part() != 0u) continue;
        const uint row = rowOfLane[r];
        const bool mine = isThere(firstRow + tileRowOf(r));
        uvec4 end = uvec4(floatBitsToUint(weightUnscale), floatBitsToUint(1.0), 0u, 0u);
        if (!partial) {
            const RowEnd finish = finishRow(maximum[r], weightSum[r], worst[r], sinkOf(row), keptFactor());
            end = uvec4(floatBitsToUint(finish.factor * weightUnscale), floatBitsToUint(finish.divisor),
                        finish.empty ? isEmpty : finish.bad ? isBad : 0u, 0u);
            if (mine) storeLse(row, finish);
        } else if (mine) {
            const uint at = partialAt(row, splitOfGroup());
            outWords[at] = floatBitsToUint(maximum[r]);
            outWords[at + 1u] = floatBitsToUint(weightSum[r]);
            outWords[at + 2u] = worst[r];
        }
        scoreTile[scoresAt + tileRowOf(r) * scorePitch + endAt] = end;
    }

    const uint passBlocks = tileKeys / matrixN;
    [[dont_unroll]] for (uint block = 0u; block < valueBlocks; block += passBlocks) {
        const uint columns = min(passBlocks, valueBlocks - block) * matrixN;
        [[unroll]] for (uint b = 0u; b < rowBlocks; ++b) PICKED(n, valueBlocks, block + n % passBlocks, storeOutputs(b, n, n % passBlocks))
        subgroupSync();
        for (uint n = lane; n < subgroupRows * (columns / 2u); n += subgroupLanes) {
            const uint tileRow_ = n / (columns / 2u), column = n % (columns / 2u) * 2u, dim = block * matrixN + column;
            const uint row = firstRow + tileRow_;
            if (!isThere(row) || dim >= valueDim) continue;
            const bool both = dim + 1u < valueDim;
            const uint rowPlace = scoresAt + tileRow_ * scorePitch;
            const uvec4 end = scoreTile[rowPlace + endAt], piece = scoreTile[rowPlace + column / 4u];
            const vec2 sums = uintBitsToFloat(column % 4u == 0u ? piece.xy : piece.zw);
            const vec2 ended = sums * uintBitsToFloat(end.x) / uintBitsToFloat(end.y);
            const float first = end.z == 0u ? ended.x : end.z == isEmpty ? 0.0 : uintBitsToFloat(canonicalNanBits);
            const float second = end.z == 0u ? ended.y : end.z == isEmpty ? 0.0 : uintBitsToFloat(canonicalNanBits);
            if (partial) {
                const uint at = partialAt(row, splitOfGroup()) + partialWords + dim;
                outWords[at] = floatBitsToUint(first);
                if (both) outWords[at + 1u] = floatBitsToUint(second);
            } else if (both) {
                STORE_ELEMENT_PAIR(outWords, outType, outputAt(row) + dim * oDim, oDim, first, second)
            } else {
                STORE_ELEMENT(outWords, outType, outputAt(row) + dim * oDim, first)
            }
        }
        subgroupSync();
    }
}

int alignDown(int key) { return key / int(tileKeys) * int(tileKeys); }

// With rules: what is visited next, and what of it is seen by all.
Stretch stretch = Stretch(0, 0), whole = Stretch(0, 0);
// The first tile from `tile` on that is visited; from `end` on: none.
int visitedFrom(int tile, int end) {
    if (!hasSkips || tile >= end) return tile;
    if (tile >= stretch.end) {
        stretch = nextKeys(tile, end);
        if (stretch.begin >= end) return end;
        whole = wholeKeys(stretch);
    }
    return max(tile, alignDown(stretch.begin));
}

void main() {
    lane = gl_SubgroupInvocationID;
    if (!beginTile(subgroups * subgroupRows)) return;
    firstRow = tileRow + gl_SubgroupID * subgroupRows;
    scoresAt = gl_SubgroupID * subgroupRows * scorePitch;
    const bool hasRows = firstRow < rowCount;

    // Of the workgroup, in whole tiles from key 0 of the sequence; and of the subgroup.
    const Reach reach = reachOfRows(tileRow, tileRowEnd - 1u);
    const Reach own = reachOfRows(min(firstRow, rowCount - 1u), min(firstRow + subgroupRows, rowCount) - 1u);
    const int begin = alignDown(reach.begin), end = reach.end;

    [[unroll]] for (uint r = 0u; r < laneRows; ++r) {
        const uint row = min(firstRow + tileRowOf(r), rowCount - 1u);
        rowOfLane[r] = row;
        maximum[r] = lowest;
        weightSum[r] = 0.0;
        worst[r] = 0u;
    }
    EACH_BLOCK(n, rowBlocks * valueBlocks, outputs[n] = Sums(0.0))
    loadAllQueries();
    beginRows();
    beginSkips();

    if (gl_LocalInvocationID.x == 0u) nonFinite[0] = 0u;
    uint parity = 0u;
    int tile = visitedFrom(begin, end);
    if (loadsAhead && tile < end) loadTile(tile, end);
    while (tile < end) {
        // Something of the tile, from some row of the workgroup, by more than position.
        const bool hidden = mayShowWholes && hasSkips ? tile < whole.begin || tile + int(tileKeys) > whole.end : anyPairHidden;
        stageTile(tile, end, hidden || drops || tile < reach.wholeBegin || tile + int(tileKeys) > reach.wholeEnd, parity);
        const int next = visitedFrom(tile + int(tileKeys), end);
        if (loadsAhead && next < end) loadTile(next, end);
        const bool tested = hidden || tile < own.wholeBegin || tile + int(tileKeys) > own.wholeEnd;
        bool visible = hasRows && tile < own.end && tile + int(tileKeys) > own.begin;
        if (visible && tested) visible = lookAtPairs(tile);
        if (visible) takeTile(tile, end, tested, parity);
        parity = 1u - parity;
        tile = next;
    }
    if (hasRows) {
        endRows();
        storeRows();
    }
}
