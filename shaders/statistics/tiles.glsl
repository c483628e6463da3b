// Statistics of attention over tiles, for rows.comp and keys.comp: a lane owns items, query rows or keys,
// and the items of the other side pass by, in steps (attention/tile_lanes.glsl). Nothing of size queries
// x keys is in memory, and no sum is taken by atomics.
//
// VKATTN_SUBGROUPS: the products of a pair come by subgroup shuffles, and owned items lie in registers.
// Otherwise a lane has an item alone and loads both sides again for every step: any head dim, any device.
//
// Before it is included, keys.comp defines VKATTN_OWNS_KEYS.
#define VKATTN_STAGE_STATISTICS
#include "lib/platform.glsl"
#ifdef VKATTN_SUBGROUPS
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#include "attention/tile_lanes.glsl"
layout(constant_id = 13) const uint topCount = 0;  // of the largest weights of a row, that are written
layout(constant_id = 17) const uint topListed = 0; // that are kept, topCount or more

#include "attention/operands.glsl"
#include "attention/sequence.glsl"
#include "attention/reach.glsl"
#include "attention/skip.glsl"
#include "attention/key_value.glsl"
#include "attention/query_rows.glsl"
#include "attention/pair.glsl"

#ifdef VKATTN_OWNS_KEYS
#define OWNED(n) keyRow(laneItem(n))
#define PASSING(item) queryRow(item)
#define ownedElement keyElement
#define passingElement queryElement
#define PASSING_RUN(out, row, dim, count) LOAD_RUN(out, q, qType, row, dim, count, queryElement)
#define AtOwned KeyValueRow
#define AtPassing RowAt
#else
#define OWNED(n) queryRow(laneItem(n))
#define PASSING(item) keyRow(item)
#define ownedElement queryElement
#define passingElement keyElement
#define PASSING_RUN KEY_RUN
#define AtOwned RowAt
#define AtPassing KeyValueRow
#endif

// Of the step: dots, then scores; bias.
float scores[cells], added[cells];

#ifdef VKATTN_SUBGROUPS
float owned[ownedPerLane * dimsPerLane]; // items past the end repeat the last one and are not stored
const uint loads = source == sourceShuffled ? dimsPerLane / shuffleLanes : 1u;
float kept[source == sourceShuffled ? stepItems * loads : 1u];
shared float tile[1]; // no layout of statistics has what passes by in shared memory
void loadOwned() { LOAD_OWNED(owned, dimsPerLane, BLOCK_OF(dimsPerLane), OWNED, ownedElement, dimOf) }
void multiply(int j) { MULTIPLY(scores, owned, dimsPerLane, PASSING_RUN, run, dimOf, PASSING, passingElement, tile, paddedDim, kept, loads) }
#else
void loadOwned() {}
void multiply(int j) {
    [[unroll]] for (uint n = 0u; n < cells; ++n) scores[n] = 0.0;
    AtPassing passing[stepItems];
    AtOwned own[ownedPerLane];
    [[unroll]] for (uint c = 0u; c < stepItems; ++c) passing[c] = PASSING(j + int(c));
    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n) own[n] = OWNED(n);
    // Dims past the end are 0 on both sides. Several a round: some drivers count rounds (core/plan/plan.hpp).
    for (uint first = 0u; first < headDim; first += plainDims)
        [[unroll]] for (uint e = 0u; e < plainDims; ++e)
            [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)
                [[unroll]] for (uint c = 0u; c < stepItems; ++c)
                    scores[n * stepItems + c] =
                        fma(ownedElement(own[n], first + e), passingElement(passing[c], first + e), scores[n * stepItems + c]);
}
#endif

uint scalesAt; // of the chunk's row 0 of the head at hand
void beginHead(uint head) {
    beginQueries(head);
    scalesAt = lseBase + (batch * headCount() + head) * rowScaleWords * (queryTokens + 1u) + rowScaleWords * (queryFirst + 1u);
}

// What a step brings is added to what rows.comp or keys.comp keep. `tested`: some item of the tile may not
// see all of the step.
void takeStep(uint head, int j, bool tested);

// All that passes by of a head: items [begin, end), of which every item of the tile sees
// [wholeBegin, wholeEnd). In order, so that of equal scores the lowest key comes first and sums do not
// depend on where chunks end. One loop for steps of both kinds: with three, one for each part, Mesa 22 took
// 3.2 s in place of 1.2 s to compile rows.comp.
void takeHead(uint head, int begin, int end, int wholeBegin, int wholeEnd) {
    if (!hasSkips) {
        for (int j = alignDown(begin); j < end; j += int(stepItems))
            takeStep(head, j, anyPairHidden || j < wholeBegin || j + int(stepItems) > wholeEnd);
        return;
    }
    EACH_SHOWN_STEP(j, head, alignDown(begin), end, takeStep(head, j, true))
}

void beginLanes() {
    placeLane(ownedFirst);
    headDim = dims & 0xffffu;
}
