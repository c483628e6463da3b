#include "small_head.hpp"

#include "unit/cpu/cpu_runs.hpp"

#include <cmath>

namespace vkattn::test {

SmallHead::SmallHead(uint32_t ofQueries, uint32_t ofKeys, const std::function<double(uint32_t, uint32_t)> &weight)
    : queries(ofQueries), keys(ofKeys), q(queries), k(keys) {
    for (uint32_t i = 0; i < queries; ++i)
        for (uint32_t j = 0; j < keys; ++j) bias.push_back(static_cast<float>(std::log(weight(i, j))));
}

void SmallHead::run(bool oracle) {
    const auto packed = [](vkattn_dtype dtype, uint32_t rows, uint32_t columns) {
        return vkattn_layout{dtype, {1, 1, rows, columns}, {int64_t{rows} * columns, int64_t{rows} * columns, columns, 1}, 0};
    };
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.flags = topLeft ? VKATTN_ALIGN_TOP_LEFT : 0; // of one dim: the scale is 1
    p.q = packed(VKATTN_F32, queries, 1);
    p.k = packed(VKATTN_F32, keys, 1);
    p.bias = packed(VKATTN_F32, queries, keys);
    vkattn_attention_statistics s{};
    s.structSize = sizeof s;
    s.attention = &p;
    s.statistics = packed(VKATTN_F32, queries, VKATTN_STATISTIC_COUNT);
    s.received = packed(VKATTN_F32, keys, 1);
    s.topWeights = packed(VKATTN_F32, queries, top);
    s.topKeys = packed(VKATTN_BITS32, queries, top);
    s.densityThreshold = threshold;
    statistics.assign(size_t{queries} * VKATTN_STATISTIC_COUNT, 12345.0f);
    received.assign(keys, 12345.0f);
    topWeights.assign(size_t{queries} * top, 12345.0f);
    topKeys.assign(size_t{queries} * top, 12345);
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_STATISTICS;
    o.of.attentionStatistics = &s;
    const auto of = [](vkattn_role role, auto &array) { return vkattn_operand_memory{role, array.data(), 4 * array.size()}; };
    const std::vector<vkattn_operand_memory> memory = {of(VKATTN_Q, q),
                                                       of(VKATTN_K, k),
                                                       of(VKATTN_BIAS, bias),
                                                       of(VKATTN_STATISTICS, statistics),
                                                       of(VKATTN_RECEIVED, received),
                                                       of(VKATTN_TOP_WEIGHTS, topWeights),
                                                       of(VKATTN_TOP_KEYS, topKeys)};
    if (oracle)
        runOracleOf(o, memory, "small head");
    else
        runOnCpu(o, memory, 0, "small head");
}

} // namespace vkattn::test
