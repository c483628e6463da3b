#version 450
// Which blocks of pairs have anything to see (vkattn/visible_blocks.h). A workgroup has a row of blocks of a
// head and goes over its columns in order; lanes have the keys of a block, for one query after the other, and
// what they find meets in shared memory. Every pair of a block is asked for: what a program hides has no
// shape that could be known from corners.
#define VKATTN_STAGE_VISIBLE_BLOCKS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/pair.glsl"

const uint anyVisible = 1u, anyHidden = 2u;
shared uint found;

// Of the pairs of queries [first, end) of the chunk and keys [begin, stop).
uint findIn(uint head, uint first, uint end, int begin, int stop) {
    const uint lane = gl_LocalInvocationID.x;
    if (lane == 0u) found = 0u;
    barrier();
    uint own = 0u; // a lane that has found both is done
    for (uint query = first; query < end && own != (anyVisible | anyHidden); ++query) {
        const Row row = rowOf(head, query);
        for (int key = begin + int(lane); key < stop; key += int(lanes)) {
            float ignored = 0.0;
            own |= pairVisible(row, key, ignored) ? anyVisible : anyHidden;
        }
    }
    if (own != 0u) atomicOr(found, own);
    barrier();
    const uint all = found;
    barrier(); // before the next block begins
    return all;
}

void main() {
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.z % heads, entry = gl_WorkGroupID.z / heads;
    beginSequence(entry);
    const uint first = gl_WorkGroupID.x * blockQueries, end = min(first + blockQueries, rowsOf(seq));
    const uint item = entry * rowsOfEntry + head * rowsOfHead + gl_WorkGroupID.x; // a row of the lists
    const bool apart = (order & listsFull) != 0u;
    uint listed = 0u, whole = 0u;
    if ((order & orderFirst) == 0u) {
        listed = counts[countsBase + item];
        if (apart) whole = fullCounts[fullCountsBase + item];
    }
    if (first < end) {
        const Reach reach = reachOf(first, end - 1u, int(keyFirst), int(keyFirst + keysOf(seq)));
        if (hasSkips) beginTileOfRows(head, 1u, first, end - 1u);
        for (int from = reach.begin; from < reach.end;) {
            if (hasSkips) from = nextKeys(from, reach.end).begin;
            if (from >= reach.end) break;
            const uint column = uint(from) / blockKeys;
            const int begin = int(column * blockKeys), stop = min(begin + int(blockKeys), int(keyTokens));
            const uint all = findIn(head, first, end, begin, stop);
            const bool isWhole = apart && all == anyVisible;
            if (lane == 0u && isWhole) fullIndices[fullIndicesBase + item * entries + whole] = column;
            if (lane == 0u && !isWhole && (all & anyVisible) != 0u) indices[indicesBase + item * entries + listed] = column;
            if (isWhole)
                ++whole;
            else if ((all & anyVisible) != 0u)
                ++listed;
            from = stop;
        }
    }
    if (lane != 0u) return;
    counts[countsBase + item] = listed;
    if (apart) fullCounts[fullCountsBase + item] = whole;
}
