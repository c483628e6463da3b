// The table at the workspace's start (lib/table.h): where the batch entries of a plan lie, and what its rules
// of visibility need. Set-up dispatches gather it once a plan, from data that is never trusted.
#pragma once

#include "core/plan/plan.hpp"
#include "lib/interop.h"

#include <algorithm>

namespace vkattn {

// Places in words from the table's start; 0: there is no such part.
struct TableLayout {
    uint64_t entries = 0, dilations = 0, globals = 0, summary = 0, blocks = 0, pages = 0, end = 0;
    uint32_t globalWords = 0, summaryWords = 0; // of an entry
    uint32_t blockWords = 0;                    // of a row of blocks
    uint64_t blockRows = 0, blockPlane = 0;     // rows of blocks of all planes; words of a plane
    uint64_t programBuffers[vkattn::programBuffers] = {};
};
[[nodiscard]] TableLayout tableLayout(const Problem &p);

// Rounds of loops in which a lane looks for what its tile may skip (shaders/attention/skip.glsl).
struct SkipRounds {
    uint64_t through = 0;        // once, of what is looked through
    uint64_t perStretch = 0;     // for each stretch that the tile visits
    uint64_t shortStretches = 0; // that it may ask for
    // Of a tile that some heads' items pass by, a step a round.
    [[nodiscard]] uint64_t of(uint64_t items, uint32_t step, uint64_t heads = 1) const {
        const uint64_t steps = heads * ((items + step - 1) / step), longStretches = heads * (items / interop::leastStretch + 1);
        return heads * through + perStretch * (std::min(shortStretches, steps) + longStretches);
    }
};
// Keys or rows that a dispatch may take one a round: fewer with rules, which are looked through in the same shader.
[[nodiscard]] inline uint32_t mostItemsPerDispatch(const Problem &p) {
    return p.hasRules() ? maxKeysPerDispatch / 2 : maxKeysPerDispatch;
}
// Short stretches that a tile may ask for before it visits all; 0 where looking through what there is
// takes too many rounds.
[[nodiscard]] uint32_t shortStretches(const Problem &p);
// Of a tile of so many tokens.
[[nodiscard]] SkipRounds skipRounds(const Problem &p, uint32_t tileTokens);

// Places the table of a plan and counts the dispatches of its set-up, if the device can hold and gather it.
[[nodiscard]] vkattn_result setTable(Plan &plan, const PlanLimits &limits, vkattn_diagnostic *why);
[[nodiscard]] uint32_t tableDispatches(const Problem &p);
// The index-th of them. Each but the first waits for the one before.
void makeTable(const Plan &plan, uint32_t index, Dispatch &d);

} // namespace vkattn
