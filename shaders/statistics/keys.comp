#version 450
// What keys receive: lanes own keys, and the rows of a query head pass by, in order. The weights come from
// what rows.comp has left of every row: its maximum and the inverse of its sum.
#define VKATTN_OWNS_KEYS
#include "statistics/tiles.glsl"

float sums[ownedPerLane];
bool bad[ownedPerLane]; // a row that sees the key is NaN

// Of the step: the rows that pass by.
Row passingRows[stepItems];
float passingTop[stepItems];
uint passingInverse[stepItems]; // as bits

void beginStep(uint head, int j, bool tested) {
    [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
        const uint row = heldRow(j + int(c));
        passingTop[c] = uintBitsToFloat(rowScales[scalesAt + row * rowScaleWords]);
        passingInverse[c] = rowScales[scalesAt + row * rowScaleWords + 1u];
        passingRows[c] = rowWithoutRules(head, 0u, 0, 0, 0, 0.0);
        if (tested || anyScoreChanged) passingRows[c] = rowOf(head, row);
        // A row past the end repeats the last one, and is seen by nobody.
        if (j + int(c) >= int(rowCount)) passingRows[c].end = 0;
    }
}

uint visiblePairs() {
    uint bits = 0u;
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        [[unroll]] for (uint c = 0u; c < stepItems; ++c)
            bits |= pairVisible(passingRows[c], laneItem(n), added[n * stepItems + c]) ? 1u << (n * stepItems + c) : 0u;
    return bits;
}

void takeStep(uint head, int j, bool tested) {
    beginStep(head, j, tested);
    uint visible = 0xffffffffu;
    if (tested) visible = visiblePairs();
    multiply(j);
    [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
        const bool undefined = isNanBits(passingInverse[c]);
        const float inverse = undefined ? 0.0 : uintBitsToFloat(passingInverse[c]);
        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
            const uint at = n * stepItems + c;
            const bool here = (visible >> at & 1u) != 0u;
            const float score = pairScore(passingRows[c], laneItem(n), scores[at], added[at]);
            const float weight = expDifference(score, passingTop[c]) * inverse;
            sums[n] += here && !undefined ? weight : 0.0;
            bad[n] = bad[n] || (here && undefined);
        }
    }
}

void main() {
    beginLanes();
    const uint head = gl_WorkGroupID.z % headCount();
    beginSequence(gl_WorkGroupID.z / headCount());
    rowCount = rowsOf(seq);
    tileFirst += int(keyFirst);
    // Keys of the tensor that the batch entry has; those past its length get zeros.
    const int stored = int(min(keyFirst + keys, (flags & flagRagged) != 0u ? seq.keyCount : keyTokens));
    if (tileFirst >= stored) return;
    ownedLast = int(min(keyFirst + keys, seq.keyCount)) - 1;
    beginHead(head);
    beginKeys((head + (groupAndPhase >> 16)) / groupSize());
    const uint receivedAt = oBase + batch * receivedStrides.batch + head * receivedStrides.head + (seq.keyStart - keyFirst) * receivedStrides.token;

    loadOwned();
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
        sums[n] = 0.0;
        bad[n] = false;
        if ((order & orderFirst) != 0u || itemOf(n) >= stored) continue;
        const uint carried = received[receivedAt + uint(itemOf(n)) * receivedStrides.token];
        bad[n] = isNanBits(carried);
        sums[n] = bad[n] ? 0.0 : uintBitsToFloat(carried);
    }
    if (rowCount > 0u && tileFirst <= ownedLast) {
        const RowReach reach = rowsThatSee(tileFirst, min(tileFirst + int(tileOwned) - 1, ownedLast), int(rowCount));
        if (hasSkips) beginTileOfKeys(tileFirst, min(tileFirst + int(tileOwned) - 1, ownedLast));
        takeHead(head, reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);
    }
    if (dimLane != 0u) return;
    const float share = (order & orderLast) != 0u ? uintBitsToFloat(rowScales[scalesAt - rowScaleWords * (queryFirst + 1u)]) : 1.0;
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
        if (itemOf(n) >= stored) continue;
        const float value = itemOf(n) > ownedLast ? 0.0 : sums[n] * share;
        const bool undefined = bad[n] && itemOf(n) <= ownedLast;
        received[receivedAt + uint(itemOf(n)) * receivedStrides.token] = undefined ? canonicalNanBits : floatBitsToUint(value);
    }
}
