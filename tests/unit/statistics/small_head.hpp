// Statistics of small heads with weights of one's own, on the CPU.
#pragma once

#include "vkattn/cpu.h"
#include "vkattn/statistics.h"

#include <functional>
#include <limits>
#include <vector>

namespace vkattn::test {

inline constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
inline constexpr uint32_t noKey = 0xffffffff; // in topKeys

// One head of one batch entry, whose scores are ln(weight of i and j); a weight of 0 hides the pair.
struct SmallHead {
    uint32_t queries, keys, top = 3;
    float threshold = 0;
    bool topLeft = false;
    std::vector<float> q, k, bias; // q and k are 0, of one dim
    std::vector<float> statistics, received, topWeights;
    std::vector<uint32_t> topKeys;

    SmallHead(uint32_t queries, uint32_t keys, const std::function<double(uint32_t i, uint32_t j)> &weight);
    void run(bool oracle);
    [[nodiscard]] float at(uint32_t i, vkattn_statistic column) const { return statistics[i * VKATTN_STATISTIC_COUNT + column]; }
};

} // namespace vkattn::test
