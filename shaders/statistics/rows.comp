#version 450
// Statistics of rows: lanes own query rows, keys pass by. The softmax is online (Milakov and Gimelshein
// 2018): whatever is a sum over keys has the row's maximum so far subtracted in its exponents, and is
// rescaled where a higher score comes. What a row needs to go on lies, between chunks of keys, in its
// outputs and in the workspace; the bits are those of one chunk.
#include "statistics/tiles.glsl"

const bool columnsWanted = (form & formStatistics) != 0u, densityWanted = (form & formDensity) != 0u;
// No more keys than 1 / threshold weigh more than the threshold: a list so long has them all.
const bool densityOfTop = (form & formDensityOfTop) != 0u;
const uint topSlots = topListed > 0u ? topListed : 1u;

// Of a row: sums over visible keys of e = exp(score - top), and of products with e.
struct Sums {
    float weights, squares, entropies; // e, e^2, e (score - top)
    float distances, signedDistances, squaredDistances;
    float diagonal, first, neighbours;
};

Row ownedRows[ownedPerLane];
float top[ownedPerLane];  // the highest score; -infinity before there is one
int topKey[ownedPerLane]; // below 0: no finite score yet
Sums sums[ownedPerLane];
uint visibleKeys[ownedPerLane], visibleNeighbours[ownedPerLane];
bool bad[ownedPerLane];  // a visible NaN or +infinity
bool seen[ownedPerLane]; // a visible key
float topScores[ownedPerLane * topSlots];
int topKeyOf[ownedPerLane * topSlots];
// Of the pass that counts for the density: the inverse sum, and the keys above the threshold.
float inverse[ownedPerLane];
uint dense[ownedPerLane];

// Sums whose exponents had `from` subtracted, with `to` in its place. (from - to) is below 0, as are
// entropies: nothing cancels.
void rescale(inout Sums s, float from, float to) {
    const float factor = expDifference(from, to), shift = max(from - to, -200.0);
    s.entropies = factor * fma(shift, s.weights, s.entropies);
    s.weights *= factor;
    s.squares *= factor * factor;
    s.distances *= factor;
    s.signedDistances *= factor;
    s.squaredDistances *= factor;
    s.diagonal *= factor;
    s.first *= factor;
    s.neighbours *= factor;
}

// Inserts a score into the largest ones of row n, behind those that are as large. -infinity changes nothing.
void insertTop(uint n, float score, int key) {
    const uint at = n * topSlots;
    [[unroll]] for (uint u = 1u; u < topSlots; ++u) {
        const uint t = topSlots - u;
        const float before = topScores[at + t - 1u], here = topScores[at + t];
        topKeyOf[at + t] = score > before ? topKeyOf[at + t - 1u] : score > here ? key : topKeyOf[at + t];
        topScores[at + t] = max(here, min(before, score));
    }
    topKeyOf[at] = score > topScores[at] ? key : topKeyOf[at];
    topScores[at] = max(topScores[at], score);
}
// The scores of a step that belong among the largest of their row: few, once a row has seen many keys. A
// round takes one of each row; the planner counts on stepItems rounds (core/statistics/statistics_plan.cpp).
// Every slot has a constant index, here and where rows begin and end: with one index that is not, a driver
// of a CPU device keeps the slots in memory, and every access is a scatter lane by lane.
void takeTop(int j, uint visible) {
    uint candidates = 0u;
    [[unroll]] for (uint n = 0u; n < cells; ++n)
        candidates |= (visible >> n & 1u) != 0u && scores[n] > topScores[n / stepItems * topSlots + topSlots - 1u] ? 1u << n : 0u;
    while (candidates != 0u) {
        uint later = 0u;
        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
            const uint at = n * stepItems, ofRow = candidates >> at & ((1u << stepItems) - 1u);
            later |= (ofRow & (ofRow - 1u)) << at;
            const uint first = uint(findLSB(ofRow));
            float score = uintBitsToFloat(minusInfinityBits);
            [[unroll]] for (uint c = 0u; c < stepItems; ++c) score = c == first ? scores[at + c] : score;
            insertTop(n, score, j + int(first));
        }
        candidates = later;
    }
}

uint visiblePairs(int j) {
    uint bits = 0u;
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        [[unroll]] for (uint c = 0u; c < stepItems; ++c)
            bits |= pairVisible(ownedRows[n], j + int(c), added[n * stepItems + c]) ? 1u << (n * stepItems + c) : 0u;
    return bits;
}

void takeStep(uint head, int j, bool tested) {
    uint visible = 0xffffffffu;
    if (tested) visible = visiblePairs(j);
    multiply(j);
    [[unroll]] for (uint n = 0u; n < cells; ++n) scores[n] = pairScore(ownedRows[n / stepItems], j + int(n % stepItems), scores[n], added[n]);
    if (densityWanted) {
        [[unroll]] for (uint n = 0u; n < cells; ++n) {
            const uint r = n / stepItems;
            const bool above = expDifference(scores[n], top[r]) * inverse[r] > densityThreshold;
            dense[r] += above && (visible >> n & 1u) != 0u ? 1u : 0u;
        }
        return;
    }
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) {
        const uint at = n * stepItems, ofRow = visible >> at & ((1u << stepItems) - 1u);
        float highest = top[n];
        int highestKey = topKey[n];
        uint largestBits = 0u; // of the scores without their signs
        [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
            const bool here = (ofRow >> c & 1u) != 0u;
            const float score = scores[at + c];
            const bool higher = here && score > highest;
            highest = higher ? score : highest;
            highestKey = higher ? j + int(c) : highestKey;
            largestBits = max(largestBits, here ? floatBitsToUint(score) & 0x7fffffffu : 0u);
        }
        if (largestBits >= 0x7f800000u)
            [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
                const uint bits = floatBitsToUint(scores[at + c]);
                bad[n] = bad[n] || ((ofRow >> c & 1u) != 0u && !isFiniteBits(bits) && bits != minusInfinityBits);
            }
        visibleKeys[n] += uint(bitCount(ofRow));
        seen[n] = seen[n] || ofRow != 0u;
        if (highestKey != topKey[n]) {
            if (topKey[n] >= 0) rescale(sums[n], top[n], highest);
            top[n] = highest;
            topKey[n] = highestKey;
        }
        // Before there is a finite score every exponent would be that of -infinity less -infinity.
        const bool any = topKey[n] >= 0;
        float weights[stepItems];
        [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
            const bool here = any && (ofRow >> c & 1u) != 0u;
            const float difference = max(scores[at + c] - top[n], -200.0), weight = here ? exp(difference) : 0.0;
            weights[c] = weight;
            sums[n].weights += weight;
            if (columnsWanted) {
                const float distance = float(j + int(c) - ownedRows[n].position), moment = weight * distance;
                sums[n].squares = fma(weight, weight, sums[n].squares);
                sums[n].entropies = fma(weight, here ? difference : 0.0, sums[n].entropies);
                sums[n].distances += abs(moment);
                sums[n].signedDistances += moment;
                sums[n].squaredDistances = fma(moment, distance, sums[n].squaredDistances);
            }
        }
        if (columnsWanted) {
            if (j == 0) sums[n].first += weights[0];
            const int position = ownedRows[n].position;
            if (j <= position + 1 && j + int(stepItems) > position - 1)
                [[unroll]] for (uint c = 0u; c < stepItems; ++c) {
                    const int distance = j + int(c) - position;
                    if (distance == 0) sums[n].diagonal += weights[c];
                    if (distance == 1 || distance == -1) {
                        sums[n].neighbours += weights[c];
                        visibleNeighbours[n] += ofRow >> c & 1u;
                    }
                }
        }
    }
    if (topListed > 0u) takeTop(j, visible);
}

uint columnAt(uint head, int row) {
    return oBase + batch * columnStrides.batch + head * columnStrides.head + (seq.queryStart + uint(row)) * columnStrides.token;
}
#define COLUMN(at, column) columns[(at) + (column)*columnStrides.dim]
uint topWeightAt(uint head, int row) {
    return topWeightsBase + batch * topWeightStrides.batch + head * topWeightStrides.head + (seq.queryStart + uint(row)) * topWeightStrides.token;
}
uint topKeyAt(uint head, int row) {
    return topKeysBase + batch * topKeyStrides.batch + head * topKeyStrides.head + (seq.queryStart + uint(row)) * topKeyStrides.token;
}

void beginRow(uint head, uint n) {
    const int row = laneItem(n);
    ownedRows[n] = rowOf(head, uint(row));
    top[n] = uintBitsToFloat(minusInfinityBits);
    topKey[n] = -1;
    sums[n] = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    visibleKeys[n] = visibleNeighbours[n] = dense[n] = 0u;
    bad[n] = seen[n] = false;
    inverse[n] = 0.0;
    [[unroll]] for (uint t = 0u; t < topSlots; ++t) {
        topScores[n * topSlots + t] = uintBitsToFloat(minusInfinityBits);
        topKeyOf[n * topSlots + t] = -1;
    }
    if (!densityWanted && (order & orderFirst) != 0u) return;
    top[n] = uintBitsToFloat(rowScales[scalesAt + uint(row) * rowScaleWords]);
    const uint sumBits = rowScales[scalesAt + uint(row) * rowScaleWords + 1u];
    const uint at = columnAt(head, row);
    if (densityWanted) {
        inverse[n] = uintBitsToFloat(sumBits);
        bad[n] = isNanBits(sumBits);
        if ((order & orderFirst) == 0u) dense[n] = uint(uintBitsToFloat(COLUMN(at, columnDensity)));
        return;
    }
    bad[n] = isNanBits(sumBits);
    seen[n] = sumBits != 0u;
    const bool any = seen[n] && !bad[n] && sumBits != sumOfMinusInfinity;
    topKey[n] = any ? 0 : -1;
    sums[n].weights = any ? uintBitsToFloat(sumBits) : 0.0;
    if (columnsWanted) {
        topKey[n] = any ? int(uintBitsToFloat(COLUMN(at, columnLargestKey))) : -1;
        sums[n].entropies = uintBitsToFloat(COLUMN(at, columnEntropy));
        sums[n].squares = uintBitsToFloat(COLUMN(at, columnSquares));
        sums[n].distances = uintBitsToFloat(COLUMN(at, columnDistance));
        sums[n].signedDistances = uintBitsToFloat(COLUMN(at, columnSignedDistance));
        sums[n].squaredDistances = uintBitsToFloat(COLUMN(at, columnSquaredDistance));
        sums[n].diagonal = uintBitsToFloat(COLUMN(at, columnDiagonal));
        sums[n].first = uintBitsToFloat(COLUMN(at, columnFirst));
        sums[n].neighbours = uintBitsToFloat(COLUMN(at, columnLocality));
        visibleKeys[n] = COLUMN(at, columnVisible);
        visibleNeighbours[n] = COLUMN(at, columnDensity);
    }
    if (topCount > 0u) {
        const uint weightAt = topWeightAt(head, row), keyAt = topKeyAt(head, row);
        [[unroll]] for (uint t = 0u; t < topCount; ++t) {
            topScores[n * topSlots + t] = uintBitsToFloat(topWeights[weightAt + t * topWeightStrides.dim]);
            topKeyOf[n * topSlots + t] = int(topKeys[keyAt + t * topKeyStrides.dim]);
        }
    }
}

// The row's end, or what the next chunk of keys goes on from.
void endRow(uint head, uint n) {
    const int row = itemOf(n);
    const bool last = (order & orderLast) != 0u, any = topKey[n] >= 0;
    const uint at = columnAt(head, row);
    const Sums s = sums[n];
    if (densityWanted) {
        const float keysSeen = uintBitsToFloat(COLUMN(at, columnVisible));
        const float share = last && keysSeen > 0.0 ? float(dense[n]) / keysSeen : float(dense[n]);
        COLUMN(at, columnDensity) = last && bad[n] ? canonicalNanBits : floatBitsToUint(share);
        return;
    }
    // Nothing but -infinity is visible: the row is NaN, as in attention.
    const bool undefined = bad[n] || (last && seen[n] && !any);
    const float inverseSum = any ? 1.0 / s.weights : 0.0;
    const uint sumBits = any ? floatBitsToUint(last ? inverseSum : s.weights) : seen[n] ? sumOfMinusInfinity : 0u;
    rowScales[scalesAt + uint(row) * rowScaleWords] = floatBitsToUint(top[n]);
    rowScales[scalesAt + uint(row) * rowScaleWords + 1u] = undefined ? canonicalNanBits : sumBits;
    if (columnsWanted) {
        const float by = last ? inverseSum : 1.0;
        uint values[statisticColumns];
        values[columnEntropy] = floatBitsToUint(last ? (any ? log(s.weights) - s.entropies * inverseSum : 0.0) : s.entropies);
        values[columnLargest] = floatBitsToUint(inverseSum);
        values[columnLargestKey] = floatBitsToUint(float(topKey[n]));
        values[columnDistance] = floatBitsToUint(s.distances * by);
        values[columnDiagonal] = floatBitsToUint(s.diagonal * by);
        values[columnFirst] = floatBitsToUint(s.first * by);
        values[columnSquares] = floatBitsToUint(s.squares * by * by);
        values[columnVisible] = last ? floatBitsToUint(float(visibleKeys[n])) : visibleKeys[n];
        const float locality = visibleNeighbours[n] != 0u ? s.neighbours * by / float(visibleNeighbours[n]) : -1.0;
        values[columnLocality] = floatBitsToUint(last ? locality : s.neighbours);
        values[columnSignedDistance] = floatBitsToUint(s.signedDistances * by);
        values[columnSquaredDistance] = floatBitsToUint(s.squaredDistances * by);
        uint above = 0u;
        if (densityOfTop)
            [[unroll]] for (uint t = 0u; t < topSlots; ++t) {
                const float weight = expDifference(topScores[n * topSlots + t], top[n]) * inverseSum;
                above += topKeyOf[n * topSlots + t] >= 0 && weight > densityThreshold ? 1u : 0u;
            }
        const float share = visibleKeys[n] != 0u ? float(above) / float(visibleKeys[n]) : 0.0;
        values[columnDensity] = last ? floatBitsToUint(share) : visibleNeighbours[n];
        [[unroll]] for (uint c = 0u; c < statisticColumns; ++c) COLUMN(at, c) = last && undefined ? canonicalNanBits : values[c];
    }
    if (topCount > 0u) {
        const uint weightAt = topWeightAt(head, row), keyAt = topKeyAt(head, row);
        [[unroll]] for (uint t = 0u; t < topCount; ++t) {
            const float score = topScores[n * topSlots + t];
            const int key = topKeyOf[n * topSlots + t];
            const float weight = last ? (key >= 0 ? expDifference(score, top[n]) * inverseSum : 0.0) : score;
            topWeights[weightAt + t * topWeightStrides.dim] = last && undefined ? canonicalNanBits : floatBitsToUint(weight);
            topKeys[keyAt + t * topKeyStrides.dim] = last && undefined ? 0xffffffffu : uint(key);
        }
    }
}

void main() {
    beginLanes();
    const uint head = gl_WorkGroupID.z % headCount();
    beginSequence(gl_WorkGroupID.z / headCount());
    rowCount = rowsOf(seq);
    ownedLast = int(rowCount) - 1;
    beginHead(head);
    // Rows that the batch entry lacks see no key: what counts rows asks for their scales.
    if (!densityWanted && dimLane == 0u)
        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
            if (itemOf(n) > ownedLast && itemOf(n) < int(queries))
                rowScales[scalesAt + uint(itemOf(n)) * rowScaleWords + 1u] = 0u;
    if (tileFirst > ownedLast) return;
    beginKeys((head + (groupAndPhase >> 16)) / groupSize());

    loadOwned();
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) beginRow(head, n);
    const Reach reach = reachOf(uint(tileFirst), min(uint(tileFirst) + tileOwned, rowCount) - 1u, int(keyFirst), int(min(keyFirst + keys, seq.keyCount)));
    if (hasSkips) beginTileOfRows(head, 1u, uint(tileFirst), min(uint(tileFirst) + tileOwned, rowCount) - 1u);
    takeHead(head, reach.begin, reach.end, reach.wholeBegin, reach.wholeEnd);
    if (dimLane != 0u) return;
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
        if (itemOf(n) <= ownedLast) endRow(head, n);
}
