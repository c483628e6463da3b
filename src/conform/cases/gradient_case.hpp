// Backward passes with their data, drawn: a case of attention, what the forward pass stores of it, and
// gradients of every type and layout.
#pragma once

#include "conform/cases/case.hpp"
#include "vkattn/cpu.h"
#include "vkattn/gradient.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vkattn::conform {

struct GradientCase {
    std::unique_ptr<CaseData> data; // the forward pass, with the statistics of its rows
    vkattn_attention_gradient gradient{};
    std::map<vkattn_role, HostTensor> tensors; // from VKATTN_D_OUT on
    std::map<vkattn_role, std::vector<float>> arrays;
    uint32_t nonfinite = 0;

    GradientCase() = default;
    GradientCase(const GradientCase &other) { *this = other; }
    GradientCase &operator=(const GradientCase &other);

    // Of the case itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation operation();
    [[nodiscard]] std::vector<vkattn_operand_memory> operands();
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    [[nodiscard]] bool has(vkattn_role role) const { return tensors.count(role) != 0 || arrays.count(role) != 0; }
    // Empty: nothing but elements of gradients differs from `before`.
    [[nodiscard]] std::string damage(const GradientCase &before) const;
    [[nodiscard]] std::string text() const;

    // Empty, or what is wrong with the outputs: beyond the bounds of docs/numerics.md, or bytes that
    // changed and must not.
    [[nodiscard]] std::string wrong(GradientCase &before, float probabilityUnit = 0, float probabilityFloor = 0,
                                    vkattn_verify_report *report = nullptr);
};

inline constexpr vkattn_role gradientTensorRoles[] = {VKATTN_D_OUT, VKATTN_D_LSE, VKATTN_D_WEIGHTS, VKATTN_D_Q,
                                                      VKATTN_D_K,   VKATTN_D_V,   VKATTN_D_BIAS};
[[nodiscard]] constexpr bool isGradientInput(vkattn_role role) {
    return role == VKATTN_D_OUT || role == VKATTN_D_LSE || role == VKATTN_D_WEIGHTS;
}

// What of a gradient is drawn.
struct GradientOptions {
    uint32_t most = 4;       // options of the attention case
    bool everything = false; // every gradient that the case has, in f32, and lossScale 1
    bool dropout = true;     // may be drawn
    // Only what VKATTN_GRADIENT_COOPMAT takes: q, k, v and dOut of one 16-bit type, no dWeights, no dBias.
    bool matrices = false;
    // Programs may have hooks of probabilities, which VKATTN_GRADIENT_COOPMAT does not take.
    bool weighingHooks = true;
};
// Attention whose backward pass can be checked, with what `options` say.
[[nodiscard]] Case drawAttentionOfGradient(Random &random, const GradientOptions &options);
// The forward pass of the case has not run: `out` and `lse` are any bytes. NaN lies wherever nothing may
// look.
[[nodiscard]] GradientCase drawGradient(Random &random, const GradientOptions &options = {});
[[nodiscard]] GradientCase drawGradient(Random &random, const Case &attention, const GradientOptions &options);

} // namespace vkattn::conform
