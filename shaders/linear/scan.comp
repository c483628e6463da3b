#version 450
// The scan of linear attention over a run of chunks (vkattn/linear.h). With S the state before a chunk:
//     u_i   = beta_i (v_i - S^T k_i) - sum over j < i of A_ij u_j     the delta rules; otherwise v_i
//     out_i = S^T q_i + sum over j <= i of P_ij u_j
//     S     = S decayed + sum over j of k_j u_j^T
// where prepare.comp has made A, P and the decays of all of it. u of the delta rules is the solution of a unit
// lower triangular system (Yang et al. 2024), by forward substitution.
//
// Lanes are columns of the state: a column needs no other, whatever the rule. A lane has several columns, and all
// of their rows in registers, or a run of rows, whose products are added up over shared memory in a fixed order.
//
// Defines: VKATTN_SUBGROUPS: neighbouring rows of keys and queries come by one load and subgroup shuffles, as CPU
// devices have it; otherwise each by a load of its own.
#define VKATTN_STAGE_LINEAR
#include "lib/platform.glsl"

#include "linear/chunk.glsl"

#include "linear/lanes.glsl"

// With VKATTN_SUBGROUPS rowsPerLane is a multiple of shuffleLanes.
layout(constant_id = 14) const uint blockTokens = 1;    // slots at a time; divides chunkTokens
layout(constant_id = 15) const uint edgeRows = 8;       // rows of the state loaded or stored at a time; divides rowsPerLane

layout(set = 0, binding = slotLinearSnapshots, std430) buffer Snapshots { uint snapshots[]; };

const bool isOneSpan = (form & formLinearOneSpan) != 0u;
const uint dotCount = chunkTokens * columnsPerLane, stateCount = rowsPerLane * columnsPerLane;
shared float partial[rowLanes > 1u ? dotCount * rowLanes * columnLanes : 1u];

float state[stateCount];
float dots[dotCount];    // of slots with the state
float written[dotCount]; // u

ChunkPlace chunk;
Place keyPlace, rowPlace, valuePlace, outPlace;
uint groupHead; // among those that read the state

// What the state is multiplied with, of a slot and a row. Selects, no branches: an element that is not there is
// read at the beginning of what is bound.
const uint keysForDots = 0u, rowsForDots = 1u, keysForState = 2u;
float element(const uint which, uint s, uint row) {
    const bool ofRows = which == rowsForDots, there = row < rows && (ofRows ? hasRow(chunk, s) : hasToken(chunk, s));
    const uint n = ofRows ? groupHead : 0u;
    uint at;
    float value;
    if (inArrays || isStored) {
        if (inArrays)
            at = which == keysForState ? keysToEnd(chunk, s) : arrayAt(chunk, ofRows ? linearRowsAt : linearKeysAt, n, s);
        else
            at = arrayAt(chunk, ofRows ? linearRowMapAt : linearKeyMapAt, n, s);
        value = workspaceFloat(there ? at + row : 0u);
    } else if (ofRows) {
        at = rowPlace.at + uint(rowOf(chunk, s)) * rowPlace.token + row * rowPlace.dim;
        at = there ? at : 0u;
        value = featureOf(LOAD_ELEMENT(q, qType, at));
    } else {
        at = keyPlace.at + uint(chunk.first + int(s)) * keyPlace.token + row * keyPlace.dim;
        at = there ? at : 0u;
        value = featureOf(LOAD_ELEMENT(k, kType, at));
    }
    return there ? value : 0.0;
}

#ifdef VKATTN_SUBGROUPS
const uint runRows = shuffleLanes;
#define LOAD_RUN(which, s, r) element(which, s, rowFirst + (r) + lane % shuffleLanes)
#define OF_RUN(loaded, which, s, r, e) subgroupShuffle(loaded, e)
#else
const uint runRows = 1u;
#define LOAD_RUN(which, s, r) element(which, s, rowFirst + (r))
#define OF_RUN(loaded, which, s, r, e) (loaded)
#endif

// Products of the slots' keys or rows with the state's columns.
void multiplyState(const uint which) {
    [[unroll]] for (uint n = 0u; n < dotCount; ++n) dots[n] = 0.0;
    [[unroll]] for (uint block = 0u; block < chunkTokens; block += blockTokens)
        [[unroll]] for (uint r = 0u; r < rowsPerLane; r += runRows) {
            float loaded[blockTokens];
            [[unroll]] for (uint t = 0u; t < blockTokens; ++t) loaded[t] = LOAD_RUN(which, block + t, r);
            [[unroll]] for (uint e = 0u; e < runRows; ++e)
                [[unroll]] for (uint t = 0u; t < blockTokens; ++t) {
                    const float x = OF_RUN(loaded[t], which, block + t, r, e);
                    [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
                        const uint n = (block + t) * columnsPerLane + c;
                        dots[n] = fma(x, state[(r + e) * columnsPerLane + c], dots[n]);
                    }
                }
        }
    if (rowLanes > 1u) {
        barrier(); // what lay there was read
        ADD_ROW_LANES(dots, dotCount)
    }
}

// What the chunk's tokens write.
void takeValues() {
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s)
        [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
            const bool there = hasToken(chunk, s) && isColumn(c);
            uint at = valuePlace.at + uint(chunk.first + int(s)) * valuePlace.token + columnOf(c) * valuePlace.dim;
            at = there ? at : 0u;
            const float value = LOAD_ELEMENT(v, vType, at);
            written[s * columnsPerLane + c] = there ? value : 0.0;
        }
    if (!isDelta) return;
    multiplyState(keysForDots);
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        const float beta = workspaceFloat(strengthAt(chunk, s)), decayed = isGated ? workspaceFloat(fromStartAt(chunk, s)) : 1.0;
        [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
            const uint n = s * columnsPerLane + c;
            written[n] = hasToken(chunk, s) ? beta * (written[n] - decayed * dots[n]) : 0.0;
        }
        // Not up to s: Mesa unrolls no loop in a loop whose end the outer one knows, and the arrays stayed in memory.
        [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
            if (j >= s) continue;
            const float pair = workspaceFloat(keyPairAt(chunk, s, j));
            [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c)
                written[s * columnsPerLane + c] = fma(-pair, written[j * columnsPerLane + c], written[s * columnsPerLane + c]);
        }
    }
}

void readRows() {
    multiplyState(rowsForDots);
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        const float factor = workspaceFloat(rowFactorAt(chunk, groupHead, s));
        [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) dots[s * columnsPerLane + c] *= factor;
        if (!isReading)
            [[unroll]] for (uint j = 0u; j < chunkTokens; ++j) {
                if (j > s) continue;
                const float pair = workspaceFloat(rowPairAt(chunk, groupHead, s, j));
                [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c)
                    dots[s * columnsPerLane + c] = fma(pair, written[j * columnsPerLane + c], dots[s * columnsPerLane + c]);
            }
    }
    // A loop: each store is a branch in software drivers.
    [[dont_unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        const int row = rowOf(chunk, s);
        const bool stores = hasRow(chunk, s) && rowLane == 0u, sees = !isReading || !seesNothing(row);
        [[unroll]] for (uint c = 0u; c < columnsPerLane; c += 2u) {
            float first = 0.0, second = 0.0;
            [[unroll]] for (uint other = 0u; other < chunkTokens; ++other) {
                first = other == s ? dots[other * columnsPerLane + c] : first;
                second = other == s ? dots[other * columnsPerLane + c + 1u] : second;
            }
            first = uintBitsToFloat(scoreBits(sees ? first : 0.0));
            second = uintBitsToFloat(scoreBits(sees ? second : 0.0));
            const uint at = outPlace.at + uint(row) * outPlace.token + columnOf(c) * outPlace.dim;
            if (stores && isColumn(c + 1u)) {
                STORE_ELEMENT_PAIR(outWords, outType, at, outPlace.dim, first, second)
            } else if (stores && isColumn(c)) {
                STORE_ELEMENT(outWords, outType, at, first)
            }
        }
    }
}

void changeState() {
    if (isGated)
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
            const float decayed = workspaceFloat(toEndAt(chunk, s));
            [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) written[s * columnsPerLane + c] *= decayed;
        }
    const float kept = isGated ? workspaceFloat(fromStartAt(chunk, chunkTokens - 1u)) : 1.0;
    [[unroll]] for (uint r = 0u; r < rowsPerLane; r += runRows) {
        float loaded[chunkTokens];
        float factor = 1.0;
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) loaded[s] = LOAD_RUN(keysForState, s, r);
#ifdef VKATTN_SUBGROUPS
        const uint factorRow = rowFirst + r + lane % shuffleLanes;
#else
        const uint factorRow = rowFirst + r;
#endif
        if (inArrays) {
            factor = workspaceFloat(chunk.at + factorAt + min(factorRow, rows - 1u));
            factor = factorRow < rows ? factor : 0.0;
        }
        [[unroll]] for (uint e = 0u; e < runRows; ++e) {
            const float ofRow = inArrays ? OF_RUN(factor, keysForState, 0u, r, e) : kept;
            float x[chunkTokens];
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) x[s] = OF_RUN(loaded[s], keysForState, s, r, e);
            [[unroll]] for (uint c = 0u; c < columnsPerLane; ++c) {
                const uint n = (r + e) * columnsPerLane + c;
                float sum = inArrays || isGated ? ofRow * state[n] : state[n];
                [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) sum = fma(x[s], written[s * columnsPerLane + c], sum);
                // A row that is not there stays 0, whatever is written: 0 * infinity is NaN.
                state[n] = isRow(rowFirst + r + e) ? sum : 0.0;
            }
        }
    }
}

// Rows of the state that are loaded or stored at a time. All of them where the device's compiler takes that; otherwise
// in a loop, with selects, as every index into the array is a constant: of 128 rows a select for each of 16 places.
const uint edgeBlocks = rowsPerLane / edgeRows;
#define EACH_ELEMENT                                                                                                                       \
    [[dont_unroll]] for (uint block = 0u; block < edgeBlocks; ++block)                                                                     \
        [[unroll]] for (uint n = 0u; n < edgeRows * columnsPerLane; ++n)
#define OF_ELEMENT                                                                                                                         \
    const uint row = rowFirst + block * edgeRows + n / columnsPerLane, column = columnOf(n % columnsPerLane);                              \
    const bool there = isRow(row) && (wholeColumns || column < valueDim);
float elementOfState(uint block, uint n) {
    float value = 0.0;
    [[unroll]] for (uint b = 0u; b < edgeBlocks; ++b) value = b == block ? state[b * edgeRows * columnsPerLane + n] : value;
    return value;
}
#define LOAD_STATE(words, place)                                                                                                           \
    EACH_ELEMENT {                                                                                                                         \
        OF_ELEMENT                                                                                                                         \
        uint at = (place).at + row * (place).token + column * (place).dim;                                                                 \
        at = there ? at : 0u;                                                                                                              \
        float value = uintBitsToFloat(words[at]);                                                                                          \
        value = there ? value : 0.0;                                                                                                       \
        [[unroll]] for (uint b = 0u; b < edgeBlocks; ++b) {                                                                                \
            const uint own = b * edgeRows * columnsPerLane + n;                                                                            \
            state[own] = b == block ? value : state[own];                                                                                  \
        }                                                                                                                                  \
    }
void loadState() {
    [[unroll]] for (uint n = 0u; n < stateCount; ++n) state[n] = 0.0;
    const bool kept = isReading || (!isOneSpan && (span & spanFirst) == 0u);
    if (kept) {
        const Place place = Place(stateAt(), columnPitch, 1u);
        LOAD_STATE(workspace, place)
    } else if (hasStateIn) {
        const Place place = placeOf(linearStateIn, stateInBase, stateHead, stateHeads);
        LOAD_STATE(stateIn, place)
    }
}
#define STORE_STATE(words, place, first)                                                                                                   \
    EACH_ELEMENT {                                                                                                                         \
        OF_ELEMENT                                                                                                                         \
        const uint bits = floatBitsToUint(elementOfState(block, n));                                                                       \
        if (there) words[(place).at + ((first) + row) * (place).token + column * (place).dim] = bits;                                      \
    }
void storeState() {
    if (hasStateOut && (isOneSpan || (span & spanLast) != 0u)) {
        const Place place = placeOf(linearStateOut, stateOutBase, stateHead, stateHeads);
        STORE_STATE(stateOut, place, 0u)
    }
    if (!isOneSpan && (span & spanKeeps) != 0u) {
        const Place place = Place(stateAt(), columnPitch, 1u);
        STORE_STATE(workspace, place, 0u)
    }
}
void storeSnapshot(uint snapshot) {
    const Place place = placeOf(linearSnapshots, snapshotsBase, stateHead, stateHeads);
    STORE_STATE(snapshots, place, snapshot * rows)
}

void main() {
    beginUnit();
    beginLanes();
    if (!isStored) keyPlace = placeOf(linearK, kBase, stateHead, stateHeads);
    valuePlace = placeOf(linearV, vBase, stateHead, stateHeads);
    loadState();
    [[dont_unroll]] for (uint local = 0u; local < chunks; ++local) {
        chunk = chunkOf(local);
        if (!isReading) takeValues();
        if (hasRows)
            [[dont_unroll]] for (groupHead = 0u; groupHead < groupHeads(); ++groupHead) {
                if (!isStored) rowPlace = placeOf(linearQ, qBase, headOfState(groupHead), heads);
                outPlace = placeOf(linearOut, oBase, headOfState(groupHead), heads);
                readRows();
            }
        if (!isReading) changeState();
        const uint number = chunkFirst + local;
        if (!isReading && endsSnapshot(number)) storeSnapshot(number / chunksPerSnapshot);
    }
    if (!isReading) storeState();
}
