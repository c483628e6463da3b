// The structures that the parts of the statistics on the CPU share: one call cut into units of work, and
// the scratch memory that a thread computes a unit in.
//
// A unit is a panel of neighbouring rows of one query head, with all keys that these rows reach. The
// scores of a panel stay in memory until its sums are known, so that nothing is computed twice. What the
// panels of a head give to the keys is added in the order of the panels: a unit waits for the panel before.
// So no sum depends on the number of threads.
#pragma once

#include "cpu/attention.hpp"
#include "cpu/pool.hpp"
#include "problem/statistics.hpp"

#include <atomic>

namespace vkattn {

// Keys of a tile, whose scores are computed and whose terms are summed up on their own.
inline constexpr uint32_t statisticsTileKeys = 128;

// One sequence of a call. A head is a sequence and a query head: its number is b * heads + h.
struct StatisticsSequence {
    Sequence s;
    uint32_t panels = 0;
    uint64_t unitsBefore = 0; // of the sequences before
};

// What is known of a head while its panels are computed: the panels that have given to the keys, and the
// rows of these that see a key.
struct StatisticsHead {
    std::atomic<uint32_t> panels{0};
    uint32_t rows = 0;
};

struct StatisticsCall {
    const Statistics &statistics;
    Call forward; // what cpu/ has for the forward pass asks for its problem and operands
    const StatisticsSequence *sequences = nullptr;
    uint32_t sequenceCount = 0;
    StatisticsHead *heads = nullptr; // NULL where nobody asks for what keys receive
};

struct StatisticsUnit {
    uint32_t b, h, panel;
};

// Scratch memory of one thread, in floats from its start; every part begins on a boundary of 16.
struct StatisticsScratch {
    size_t query, row;         // the rows of a panel, with rows in lanes; and as they are stored
    size_t keys, pairs;        // a tile
    size_t scores;             // of all keys that a panel reaches: [key][row]
    size_t topScores, topKeys; // [rank][row]
    size_t total;

    StatisticsScratch(const Statistics &statistics, uint32_t panelRows) {
        const Problem &p = statistics.attention;
        size_t end = 0;
        const auto place = [&](size_t &part, size_t floats) {
            part = end;
            end += (floats + 15) / 16 * 16;
        };
        const uint64_t reach = uint64_t{static_cast<uint32_t>(p.left)} + static_cast<uint32_t>(p.right) + panelRows;
        place(query, size_t{panelRows} * p.headDim);
        place(row, 4 * size_t{p.headDim});
        place(keys, statisticsTileKeys * packedStride(p.headDim));
        place(pairs, size_t{statisticsTileKeys} * panelRows);
        place(scores, std::min<uint64_t>(p.keyTokens, reach) * panelRows);
        place(topScores, size_t{statistics.topCount()} * panelRows);
        place(topKeys, size_t{statistics.topCount()} * panelRows);
        total = end;
    }
};

// The kernels of one target.
struct StatisticsKernels {
    const char *target; // Highway's name
    uint32_t panelRows;
    void (*rows)(const StatisticsCall &, const StatisticsUnit &, float *scratch);
};
// Returns the kernels of the best target that this processor has.
[[nodiscard]] const StatisticsKernels &statisticsKernels();

} // namespace vkattn
