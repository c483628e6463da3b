// The validated, canonical form of vkattn_attention_gradient. Planner, shaders and CPU work from this
// form.
#pragma once

#include "problem/problem.hpp"
#include "vkattn/gradient.h"

#include <span>

namespace vkattn {

// One operand that the backward pass has beside those of the forward pass. A new operand is a row of
// gradientTable and an enumerator in problem.h.
struct GradientOperand {
    vkattn_role role;
    const char *name; // the name in messages
    bool output, required;
    uint32_t dtypes;                                  // bits 1 << vkattn_dtype; arrays: 0
    vkattn_layout vkattn_attention_gradient::*layout; // arrays: NULL
    // The tensor whose extents and whose place in chunks the operand has; of an array what `forward`
    // must have: VKATTN_ROLE_LIMIT: nothing.
    vkattn_role like;
};
[[nodiscard]] std::span<const GradientOperand> gradientOperands();
// Returns NULL for a role that gradients do not add.
[[nodiscard]] const GradientOperand *findGradientOperand(vkattn_role role);

struct Gradient {
    Problem forward; // out, lse and weights are described as the forward pass wrote them
    uint32_t presentRoles = 0;
    vkattn_gradient_kernel kernel{}; // the one that was asked for
    float lossScale = 1;

    static constexpr uint32_t tensorCount = 7;
    Tensor tensors[tensorCount]; // from VKATTN_D_OUT on, by role

    // The role is one that gradients add, or one of `forward`.
    [[nodiscard]] const Tensor &tensor(vkattn_role role) const {
        return role >= VKATTN_D_OUT && role <= VKATTN_D_BIAS ? tensors[role - VKATTN_D_OUT] : forward.tensor(role);
    }
    // Returns whether an array that gradients add is present.
    [[nodiscard]] bool has(vkattn_role role) const { return presentRoles & VKATTN_PRESENT(role); }
    // Returns whether memory is bound to a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    [[nodiscard]] bool writes(vkattn_role role) const;
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    // Returns the 32-bit words of an array that gradients add.
    [[nodiscard]] uint64_t arrayLength(vkattn_role role) const;
    // 2 per multiply-add of the five products, with hidden pairs: FlashAttention's convention, 2.5
    // times the forward pass.
    [[nodiscard]] double flops() const { return 2.5 * forward.flops(); }
};

[[nodiscard]] vkattn_result makeGradient(const vkattn_attention_gradient *description, Gradient &out, vkattn_diagnostic *why);

} // namespace vkattn
