// How a lane of a pass over tiles has items of one side, query rows or keys, while the items of the other
// side pass by in steps; and the dots of the two. For gradient/tiles.glsl and statistics/tiles.glsl.
//
// Layouts of the lanes of a workgroup, by specialization constants, ownerLanes x dimLanes:
//     CPU devices   lanes are items; what passes by is the same for all lanes and comes through
//                   shared memory, or by one load of neighbouring dims and subgroup shuffles
//     GPUs          dimLanes lanes share the dims of an item, so that operands and sums fit
//                   registers and loads coalesce; subgroup shuffles add up the dots
//
// Included after platform.glsl. The macros name AtOwned and AtPassing, the types of an item's place.
layout(constant_id = constantForm) const uint form = 0; // interop.h
const bool exactDims = (form & formExactDims) != 0u, rolledEdges = (form & formRolledEdges) != 0u;
const uint source = form >> formSource & 3u;
#include "attention/turns.glsl"

layout(constant_id = 8) const uint dimLanes = 1;
layout(constant_id = 9) const uint ownerLanes = 8;
layout(constant_id = 10) const uint ownedPerLane = 1;
layout(constant_id = 11) const uint stepItems = 1;        // that pass by in a step
// dimLanes * dimsPerLane covers the head dim
layout(constant_id = 12) const uint dimsPerLane = 1;
// sourceShared: items in shared memory at a time
layout(constant_id = 14) const uint tileItems = 1;
// sourceShuffled: subgroup size, 4, 8 or 16
layout(constant_id = 15) const uint shuffleLanes = 4;
// Neighbouring dims of a lane; divides dimsPerLane.
layout(constant_id = 16) const uint run = 1;

const uint cells = ownedPerLane * stepItems;
const uint tileOwned = ownerLanes * ownedPerLane;
const uint paddedDim = dimLanes * dimsPerLane;

uint lane, dimLane, ownerLane;
int tileFirst, ownedLast; // item of the tile, the last there is

uint dimOf(uint n) { return n / run * (run * dimLanes) + dimLane * run + n % run; }
int itemOf(uint n) { return tileFirst + int(ownerLane * ownedPerLane + n); }
int laneItem(uint n) { return max(min(itemOf(n), ownedLast), 0); }
int alignDown(int item) { return item / int(stepItems) * int(stepItems); }
// Steps of [from, to) of which rules may show something to some item of the tile: `take` of each,
// from its item j on. For who has included skip.glsl.
#define EACH_SHOWN_STEP(j, head, from, to, take)                                                                                           \
    for (int j = from; j < to;) {                                                                                                          \
        const Stretch stretch = NEXT_ITEMS(head, j, to);                                                                                   \
        if (stretch.begin >= to) break;                                                                                                    \
        j = max(j, alignDown(stretch.begin));                                                                                              \
        for (const int stretchEnd = min(stretch.end, to); j < stretchEnd; j += int(stepItems)) take;                                       \
    }

void placeLane(uint firstItem) {
    lane = gl_LocalInvocationID.x;
    dimLane = lane % dimLanes;
    ownerLane = lane / dimLanes;
    tileFirst = int(firstItem + tileOfGroup() * tileOwned);
}

// dots[n * stepItems + c] = the dot of owned item n and passing item j + c over the dims of a lane.
#define MULTIPLY(dots, owned, perLane, RUN_, runDims, dimOf_, ROW_, element_, tile_, pitch, kept, loads)                                    \
    {                                                                                                                                      \
        [[unroll]] for (uint n = 0u; n < cells; ++n) dots[n] = 0.0;                                                                        \
        if (source == sourceShuffled) {                                                                                                    \
            AtPassing at_[stepItems];                                                                                                      \
            [[unroll]] for (uint c = 0u; c < stepItems; ++c) at_[c] = ROW_(j + int(c));                                                    \
            [[unroll]] for (uint d = 0u; d < (perLane); d += shuffleLanes) {                                                               \
                [[unroll]] for (uint c = 0u; c < stepItems; ++c)                                                                           \
                    kept[c * (loads) + d / shuffleLanes] = element_(at_[c], d + lane % shuffleLanes);                                      \
                [[unroll]] for (uint e = 0u; e < shuffleLanes; ++e)                                                                        \
                    [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                     \
                        const float passing = subgroupShuffle(kept[c * (loads) + d / shuffleLanes], e);                                    \
                        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)                                                                \
                            dots[n * stepItems + c] = fma(owned[n * (perLane) + d + e], passing, dots[n * stepItems + c]);                 \
                    }                                                                                                                      \
            }                                                                                                                              \
        } else if (source == sourceShared) {                                                                                               \
            [[unroll]] for (uint d = 0u; d < (perLane); ++d)                                                                               \
                [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                         \
                    const float passing = tile_[(uint(j) % tileItems + c) * (pitch) + d];                                                  \
                    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)                                                                    \
                        dots[n * stepItems + c] = fma(owned[n * (perLane) + d], passing, dots[n * stepItems + c]);                         \
                }                                                                                                                          \
        } else {                                                                                                                           \
            AtPassing at_[stepItems];                                                                                                      \
            [[unroll]] for (uint c = 0u; c < stepItems; ++c) at_[c] = ROW_(j + int(c));                                                    \
            [[unroll]] for (uint d = 0u; d < (perLane); d += (runDims))                                                                    \
                [[unroll]] for (uint c = 0u; c < stepItems; ++c) {                                                                         \
                    float loaded[runDims];                                                                                                 \
                    RUN_(loaded, at_[c], dimOf_(d), runDims)                                                                               \
                    [[unroll]] for (uint e = 0u; e < (runDims); ++e)                                                                       \
                        [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)                                                                \
                            dots[n * stepItems + c] = fma(owned[n * (perLane) + d + e], loaded[e], dots[n * stepItems + c]);               \
                }                                                                                                                          \
        }                                                                                                                                  \
        [[unroll]] for (uint n = 0u; n < cells; ++n)                                                                                       \
            [[unroll]] for (uint bit = 0u; bit < 6u; ++bit)                                                                                \
                if (dimLanes >> bit > 1u) dots[n] += subgroupShuffleXor(dots[n], 1u << bit);                                               \
    }

// Edges. Loads and stores are unrolled for a block of dims, as in flash/lanes.comp, and for the same
// reason.
#define BLOCK_OF(perLane) ((perLane) < edgeDims ? (perLane) : edgeDims)
#define BLOCKS_OF(perLane) (((perLane) + BLOCK_OF(perLane) - 1u) / BLOCK_OF(perLane))
// With selects: every index into the array is a constant. Where the rounds of an inner loop depend on
// the counter of an outer one, Mesa unrolls neither, and NVK puts the arrays into memory.
#define LOAD_OWNED(into, perLane, block, ROW_, element_, dimOf_)                                                                            \
    if (rolledEdges) {                                                                                                                     \
        for (uint n = 0u; n < ownedPerLane * (perLane); ++n) into[n] = element_(ROW_(n / (perLane)), dimOf_(n % (perLane)));               \
    } else {                                                                                                                               \
        [[unroll]] for (uint n = 0u; n < ownedPerLane * (perLane); ++n) into[n] = 0.0;                                                     \
        [[dont_unroll]] for (uint item = 0u; item < ownedPerLane; ++item) {                                                                \
            const AtOwned at_ = ROW_(item);                                                                                                \
            [[dont_unroll]] for (uint first = 0u; first < (perLane); first += (block)) {                                                   \
                [[unroll]] for (uint e = 0u; e < (block); ++e) {                                                                           \
                    const float value = element_(at_, dimOf_(min(first + e, (perLane)-1u)));                                               \
                    [[unroll]] for (uint n = 0u; n < ownedPerLane; ++n)                                                                    \
                        [[unroll]] for (uint b = 0u; b < BLOCKS_OF(perLane); ++b) {                                                        \
                            const uint d_ = min(b * (block) + e, (perLane)-1u);                                                            \
                            const bool here = n == item && b * (block) == first && first + e < (perLane);                                  \
                            into[n * (perLane) + d_] = here ? value : into[n * (perLane) + d_];                                            \
                        }                                                                                                                  \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
