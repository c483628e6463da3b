// Statistics of attention with their data, drawn: a case of attention, and any of the outputs, of any
// layout.
#pragma once

#include "conform/cases/case.hpp"
#include "vkattn/cpu.h"
#include "vkattn/operations.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vkattn::conform {

// The outputs that are asked for.
struct StatisticsOptions {
    bool columns = true, received = true;
    uint32_t top = 3; // 0: neither topWeights nor topKeys
    float densityThreshold = 0;
    bool drawLayouts = true; // otherwise packed
    bool spoils = true;      // something that is looked at may be not finite
};

struct StatisticsCase {
    std::unique_ptr<CaseData> data;
    vkattn_problem attention{}; // that of the data, or without v and out
    vkattn_attention_statistics statistics{};
    std::map<vkattn_role, HostTensor> tensors; // the outputs

    StatisticsCase() { statistics.attention = &attention; }
    StatisticsCase(const StatisticsCase &other) { *this = other; }
    StatisticsCase &operator=(const StatisticsCase &other);

    // Of the case itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation operation() const { return vkattn::operation(statistics); }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands();
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    [[nodiscard]] bool sameOutputs(const StatisticsCase &other) const; // byte for byte
    // Empty: nothing but elements of outputs differs from `before`.
    [[nodiscard]] std::string damage(const StatisticsCase &before) const;
    [[nodiscard]] std::string text() const;

    // Empty, or what is wrong with the outputs: beyond the bounds of docs/numerics.md, or bytes that
    // changed and must not.
    [[nodiscard]] std::string wrong(const StatisticsCase &before, vkattn_verify_report *report = nullptr);
};

inline constexpr vkattn_role statisticsRoles[] = {VKATTN_STATISTICS, VKATTN_RECEIVED, VKATTN_TOP_WEIGHTS, VKATTN_TOP_KEYS};

[[nodiscard]] StatisticsOptions drawStatisticsOptions(Random &random);
// NaN lies wherever nothing may look; now and then something that is looked at is not finite either.
[[nodiscard]] StatisticsCase drawStatistics(Random &random, const Case &attention, const StatisticsOptions &options);
// Another problem that the same pipelines compute: extents, positions and lengths are drawn anew.
[[nodiscard]] Case samePipelines(Random &random, Case c);

} // namespace vkattn::conform
