#include "runtime/warm_up.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// The limit on a list of dispatches. Where a list is longer, the computation takes long beside
// compiling.
constexpr size_t maxListBytes = 64u << 20;

// Returns the keys, sorted and each once. The list is empty where there is no plan or the list of
// dispatches is too long.
std::vector<uint64_t> pipelineKeys(const vkattn_problem &problem, const vkattn_caps &caps, uint64_t maxWorkspaceBytes,
                                   const std::string &tuning) {
    const vkattn_plan_options options = planOptions(maxWorkspaceBytes, tuning);
    vkattn_dispatch_list list{};
    if (measureDispatches(caps, problem, list, options) != VKATTN_OK || list.scratchBytes == 0 || list.scratchBytes > maxListBytes)
        return {};
    std::vector<std::byte> scratch(list.scratchBytes);
    if (listDispatches(caps, problem, scratch, list, options) != VKATTN_OK) return {};
    std::vector<uint64_t> keys;
    for (uint32_t n = 0; n < list.dispatchCount; ++n) keys.push_back(list.dispatches[n].pipelineKey);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
}

// Strides and offsets stay: the layout of a tensor in memory may choose a pipeline.
vkattn_problem withTokens(vkattn_problem p, uint32_t queries, uint32_t keys) {
    const auto atMost = [](uint32_t &value, uint32_t most) { value = std::min(value, most); };
    const uint32_t pairQueries = p.maxSeqQ ? std::min(p.maxSeqQ, queries) : queries,
                   pairKeys = p.maxSeqK ? std::min(p.maxSeqK, keys) : keys;
    for (vkattn_layout *rows : {&p.q, &p.out, &p.lse}) atMost(rows->extent[0], 1), atMost(rows->extent[2], queries);
    for (vkattn_layout *columns : {&p.k, &p.v}) atMost(columns->extent[0], 1), atMost(columns->extent[2], keys);
    for (vkattn_layout *pairs : {&p.weights, &p.scores, &p.bias, &p.mask, &p.bitMask}) {
        atMost(pairs->extent[0], 1);
        atMost(pairs->extent[2], pairQueries);
        atMost(pairs->extent[3], pairs == &p.bitMask ? (pairKeys + 31) / 32 : pairKeys);
    }
    atMost(p.sequences, 1);
    atMost(p.maxSeqQ, queries);
    atMost(p.maxSeqK, keys);
    p.sliceCount = 0;
    return p;
}

} // namespace

vkattn_problem smallProblemLike(const vkattn_problem &problem, const vkattn_caps &caps, uint64_t maxWorkspaceBytes,
                                const std::string &tuning) {
    const std::vector<uint64_t> wanted = pipelineKeys(problem, caps, maxWorkspaceBytes, tuning);
    if (wanted.empty()) return problem;
    const uint32_t queries = problem.q.extent[2], keys = problem.k.extent[2];
    std::vector<std::pair<uint32_t, uint32_t>> sizes;
    for (uint32_t q = 1; q < 2 * std::max(queries, 1u) && q <= 65536; q *= 4)
        for (uint32_t k = 1; k < 2 * std::max(keys, 1u) && k <= 65536; k *= 4) sizes.emplace_back(std::min(q, queries), std::min(k, keys));
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const auto &a, const auto &b) { return uint64_t{a.first} * a.second < uint64_t{b.first} * b.second; });
    for (const auto &[q, k] : sizes) {
        const vkattn_problem small = withTokens(problem, q, k);
        if (pipelineKeys(small, caps, maxWorkspaceBytes, tuning) == wanted) return small;
    }
    return problem;
}

} // namespace vkattn
