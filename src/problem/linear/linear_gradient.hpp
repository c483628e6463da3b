// The validated, canonical form of vkattn_linear_gradient. Planner, shaders and CPU work from this form.
#pragma once

#include "problem/linear/linear.hpp"
#include "vkattn/linear_gradient.h"

#include <span>

namespace vkattn {

// One operand that the backward pass has beside those of the forward pass.
struct LinearGradientOperand {
    vkattn_role role;
    const char *name; // the name in messages
    bool output;
    uint32_t dtypes;                               // bits 1 << vkattn_dtype; the array: 0
    vkattn_layout vkattn_linear_gradient::*layout; // the array: NULL
    vkattn_role like;                              // what the operand is the gradient of; the array: VKATTN_ROLE_LIMIT
};
[[nodiscard]] std::span<const LinearGradientOperand> linearGradientOperands();
// Returns NULL for a role that these gradients do not add.
[[nodiscard]] const LinearGradientOperand *findLinearGradientOperand(vkattn_role role);

struct LinearGradient {
    LinearAttention forward;
    uint32_t presentRoles = 0;
    float lossScale = 1;

    // By the order of linearGradientOperands().
    static constexpr uint32_t tensorCount = 8;
    Tensor tensors[tensorCount];

    // The role is one that gradients add, or one of `forward`.
    [[nodiscard]] const Tensor &tensor(vkattn_role role) const;
    // Returns whether an array that gradients add is present.
    [[nodiscard]] bool has(vkattn_role role) const { return presentRoles & VKATTN_PRESENT(role); }
    // Returns whether memory is bound to a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    // Returns how many heads add to a gradient with respect to an operand: of out for dQ, of the state otherwise.
    [[nodiscard]] uint32_t headsOf(vkattn_role gradient) const { return gradient == VKATTN_D_Q ? forward.heads : forward.stateHeads; }
    // Returns whether several heads, or batch entries, add to each element.
    [[nodiscard]] bool isShared(vkattn_role gradient) const {
        const Tensor &t = tensor(gradient);
        return t.present() && (t.extent[1] < headsOf(gradient) || t.extent[0] < forward.batch);
    }
    // Returns whether a gradient has any element.
    [[nodiscard]] bool hasWork() const;
    // Three passes over the state for one of the forward pass: it is computed twice, and differentiated.
    [[nodiscard]] double flops() const { return 4 * forward.flops(); }
};

[[nodiscard]] vkattn_result makeLinearGradient(const vkattn_linear_gradient *description, LinearGradient &out, vkattn_diagnostic *why);

} // namespace vkattn
