// Gradients of linear attention with their data, drawn: those of any case that linear_case.hpp draws.
#pragma once

#include "conform/linear/linear_case.hpp"
#include "vkattn/linear_gradient.h"

namespace vkattn::conform {

struct LinearGradientCase {
    LinearCase forward;
    // Without `forward`, which operation() sets: the case may be copied.
    vkattn_linear_gradient gradient{};
    std::map<vkattn_role, HostTensor> tensors; // that gradients add
    uint32_t nonfinite = 0;                    // of VKATTN_NONFINITE

    // Of the case itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation operation();
    [[nodiscard]] std::vector<vkattn_operand_memory> operands() { return operandsAfter(*this); }
    // The operands for a verifier: inputs are those of `before`.
    [[nodiscard]] std::vector<vkattn_operand_memory> operandsAfter(LinearGradientCase &before);
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    [[nodiscard]] std::vector<vkattn_role> outputs();
    [[nodiscard]] bool sameOutputs(LinearGradientCase &other);
    [[nodiscard]] std::string text();
    // Empty, or what is wrong with the outputs: beyond the bounds of docs/numerics.md, or bytes that changed and must
    // not.
    [[nodiscard]] std::string wrong(LinearGradientCase &before, vkattn_verify_report *report = nullptr);
};

inline constexpr vkattn_role linearGradientRoles[] = {VKATTN_D_OUT,   VKATTN_D_STATE_OUT,      VKATTN_D_Q,       VKATTN_D_K, VKATTN_D_V,
                                                      VKATTN_D_DECAY, VKATTN_D_WRITE_STRENGTH, VKATTN_D_STATE_IN};

// Adds gradients to a case: all of its operands have one, or those that are drawn.
[[nodiscard]] LinearGradientCase gradientsOf(LinearCase forward, Random &random, bool all);
// NaN lies wherever nothing may look; now and then something that is looked at is not finite either.
[[nodiscard]] LinearGradientCase drawLinearGradient(Random &random, const LinearOptions &options = {});

} // namespace vkattn::conform
