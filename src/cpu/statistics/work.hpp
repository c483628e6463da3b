// The structures that the parts of the statistics on the CPU share: one call cut into units of work, and
// the scratch memory that a thread computes a unit in.
//
// A unit is a panel of neighbouring rows of one query head, with all keys that these rows reach, block after
// block: whatever is a sum over keys has the maximum so far subtracted in its exponents. What needs the weights
// of every pair, which are known after the last block, is a second round over the keys. A second round
// computes scores anew, but for rows whose keys are a single block: those are still in memory.
//
// What the panels of a head give to the keys of a block is added in the order of the panels: a unit waits until
// the panel before has given. So no sum depends on the number of threads.
#pragma once

#include "cpu/attention.hpp"
#include "cpu/pool.hpp"
#include "cpu/workspace.hpp"
#include "problem/statistics.hpp"

#include <atomic>

namespace vkattn {

// Keys of a tile, whose scores are computed and whose terms are summed up on their own.
inline constexpr uint32_t statisticsTileKeys = 128;
// Keys of a block, whose scores are in memory together: whole tiles. The number decides the result's last
// bits. Where a block has all keys, nothing is computed twice; so many keys of longer rows would take more
// workspace than an online pass should.
inline constexpr uint32_t statisticsBlockKeys = 1024, statisticsOneBlockKeys = 4096;
[[nodiscard]] constexpr uint32_t blockKeysOf(const Problem &p) {
    return p.keyTokens <= statisticsOneBlockKeys ? statisticsOneBlockKeys : statisticsBlockKeys;
}

// One sequence of a call. A head is a sequence and a query head: its number is b * heads + h.
struct StatisticsSequence {
    Sequence s;
    uint32_t panels = 0;
    uint32_t storedKeys = 0;                   // with those past a key length, which no row sees
    uint64_t unitsBefore = 0, turnsBefore = 0; // of the sequences before

    [[nodiscard]] uint32_t blocks(uint32_t blockKeys) const { return static_cast<uint32_t>(ceilDivide(storedKeys, blockKeys)); }
};

struct StatisticsCall {
    const Statistics &statistics;
    Call forward; // what cpu/ has for the forward pass asks for its problem and operands
    const StatisticsSequence *sequences = nullptr;
    uint32_t sequenceCount = 0;
    // Where somebody asks for what keys receive, otherwise NULL: for each head the rows that see a key, and for
    // each block of keys of a head the panels that have given to the block.
    uint32_t *heads = nullptr;
    std::atomic<uint32_t> *turns = nullptr;
};

struct StatisticsUnit {
    uint32_t b, h, panel;
};

// Scratch memory of one thread, in floats from its start; every part begins on a boundary of 16.
struct StatisticsScratch {
    size_t query, row;         // the rows of a panel, with rows in lanes; and as they are stored
    size_t keys, pairs;        // a tile
    size_t scores;             // a block: [key][row]
    size_t topScores, topKeys; // [rank][row]
    size_t total;

    StatisticsScratch(const Statistics &statistics, uint32_t panelRows) {
        const Problem &p = statistics.attention;
        ScratchParts parts;
        const auto place = [&](size_t &part, size_t floats) { parts.place(part, floats); };
        const uint64_t reach = uint64_t{static_cast<uint32_t>(p.left)} + static_cast<uint32_t>(p.right) + panelRows;
        place(query, size_t{panelRows} * p.headDim);
        place(row, 4 * size_t{p.headDim});
        place(keys, statisticsTileKeys * packedStride(p.headDim));
        place(pairs, size_t{statisticsTileKeys} * panelRows);
        place(scores, std::min<uint64_t>({p.keyTokens, reach, blockKeysOf(p)}) * panelRows);
        place(topScores, size_t{statistics.topCount()} * panelRows);
        place(topKeys, size_t{statistics.topCount()} * panelRows);
        total = parts.total();
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
