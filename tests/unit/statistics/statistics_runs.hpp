// Statistics of drawn attention cases, and of small heads with weights of one's own, on the CPU.
#pragma once

#include "conform/cases/case.hpp"
#include "vkattn/cpu.h"
#include "vkattn/statistics.h"

#include <functional>
#include <limits>
#include <map>
#include <memory>

namespace vkattn::test {

using namespace conform;

inline constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
inline constexpr uint32_t noKey = 0xffffffff; // in topKeys

struct StatisticsCase {
    std::unique_ptr<CaseData> data;
    vkattn_problem attention{}; // what the operation points to
    bool scoresAlone = false;   // v and out are absent, which count for nothing
    vkattn_attention_statistics statistics{};
    std::map<vkattn_role, HostTensor> tensors; // the outputs

    StatisticsCase() = default;
    StatisticsCase(const StatisticsCase &other) { *this = other; }
    StatisticsCase &operator=(const StatisticsCase &other);

    // Of the case itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation operation();
    [[nodiscard]] std::vector<vkattn_operand_memory> operands();
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    [[nodiscard]] bool has(vkattn_role role) const { return tensors.count(role) != 0; }
    // Returns whether the token of an output is that of a query or key of a sequence.
    [[nodiscard]] bool isWritten(vkattn_role role, uint32_t b, uint32_t token) const;
    [[nodiscard]] std::string text() const;
    // Compares the outputs with the oracle.
    [[nodiscard]] vkattn_verify_report verified(const vkattn_verify_options &options = {});
    // Empty, or what is wrong with the outputs: beyond their bounds, or bytes that changed and must not.
    [[nodiscard]] std::string wrong(const StatisticsCase &before);
};

inline constexpr vkattn_role statisticsRoles[] = {VKATTN_STATISTICS, VKATTN_RECEIVED, VKATTN_TOP_WEIGHTS, VKATTN_TOP_KEYS};

// All outputs, or some of them; in any layout.
[[nodiscard]] StatisticsCase drawStatistics(Random &random, const Case &attention, bool everything);

// Runs with exactly the workspace that the call asks for, on `threads` threads; 0: without a pool.
void run(StatisticsCase &c, uint32_t threads);
void runOracle(StatisticsCase &c);

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
