// The validated, canonical form of vkattn_attention_statistics. Planner, shaders and CPU work from this
// form.
#pragma once

#include "problem/problem.hpp"
#include "vkattn/statistics.h"

#include <span>

namespace vkattn {

// One output of the statistics; all other operands are those of `attention`.
struct StatisticsOperand {
    vkattn_role role;
    const char *name; // the name in messages
    bool output;      // true: the operand is written
    uint32_t dtypes;  // bits 1 << vkattn_dtype
    vkattn_layout vkattn_attention_statistics::*layout;
};
[[nodiscard]] std::span<const StatisticsOperand> statisticsOperands();
// Returns NULL for a role that statistics do not add.
[[nodiscard]] const StatisticsOperand *findStatisticsOperand(vkattn_role role);

struct Statistics {
    // What decides scores, and no more: v and out have one dim and are not bound, and there is no other
    // output, no sink and no dropout.
    Problem attention;
    float densityThreshold = 0;
    Tensor statistics, received, topWeights, topKeys;

    // The role is one that statistics add, or one of `attention`.
    [[nodiscard]] const Tensor &tensor(vkattn_role role) const;
    // Returns whether memory is bound to a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    [[nodiscard]] bool writes(vkattn_role role) const { return findStatisticsOperand(role) != nullptr; }
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    [[nodiscard]] uint32_t topCount() const { return topWeights.present() ? topWeights.extent[3] : 0; }
    // 2 per multiply-add of q k^T, once, with hidden pairs.
    [[nodiscard]] double flops() const;
};

[[nodiscard]] vkattn_result makeStatistics(const vkattn_attention_statistics *description, Statistics &out, vkattn_diagnostic *why);

} // namespace vkattn
