// The validated, canonical form of vkattn_linear_attention. Planner, shaders and CPU work from this form.
#pragma once

#include "problem/tensor.hpp"
#include "vkattn/linear.h"

#include <span>

namespace vkattn {

struct LinearOperand {
    vkattn_role role;
    const char *name; // the name in messages
    bool output;
    uint32_t dtypes;                                // bits 1 << vkattn_dtype; arrays: 0
    vkattn_layout vkattn_linear_attention::*layout; // NULL: the operand is an array
};
[[nodiscard]] std::span<const LinearOperand> linearOperands();
// Returns NULL for a role that linear attention does not have.
[[nodiscard]] const LinearOperand *findLinearOperand(vkattn_role role);

struct LinearAttention {
    vkattn_linear_rule rule{};
    vkattn_feature_map features{};
    vkattn_linear_form form{};
    vkattn_head_mapping mapping{};
    bool causal = false;  // the recurrent rules: true
    bool topLeft = false; // i' = i
    float scale = 0, epsilon = 0;
    uint32_t presentRoles = 0, snapshotTokens = 0, slices = 1;
    uint32_t batch = 0, heads = 0, stateHeads = 0; // heads: of out
    uint32_t queryTokens = 0, keyTokens = 0, keyDim = 0, valueDim = 0;
    uint32_t stateRows = 0, stateColumns = 0;

    // By the order of linearOperands().
    static constexpr uint32_t tensorCount = 10;
    Tensor tensors[tensorCount];

    [[nodiscard]] const Tensor &tensor(vkattn_role role) const;
    // Returns whether memory is bound to a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    [[nodiscard]] bool has(vkattn_role role) const { return presentRoles & VKATTN_PRESENT(role); }
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    [[nodiscard]] bool inPlace(vkattn_role output, vkattn_role input) const {
        return output == VKATTN_STATE_OUT && input == VKATTN_STATE_IN;
    }

    [[nodiscard]] bool hasFeatures() const { return rule == VKATTN_LINEAR_FEATURES; }
    // Features are exponentials of numbers that may be large: the state has a running maximum.
    [[nodiscard]] bool hasMaximum() const {
        return hasFeatures() && (features == VKATTN_FEATURES_FAVOR || features == VKATTN_FEATURES_FAVOR2);
    }
    [[nodiscard]] bool isGated() const { return vkattn::isGated(rule); }
    [[nodiscard]] bool isDelta() const { return vkattn::isDelta(rule); }
    [[nodiscard]] bool decaysKeyDims() const { return isGated() && tensor(VKATTN_DECAY).extent[3] > 1; }
    // Rows of omega; 0 without.
    [[nodiscard]] uint32_t randomFeatures() const { return tensor(VKATTN_OMEGA).extent[2]; }
    [[nodiscard]] uint32_t snapshotCount() const { return tensor(VKATTN_SNAPSHOTS).present() ? keyTokens / snapshotTokens : 0; }

    // Returns the head of an operand that belongs to `head` of `count`: the larger number.
    [[nodiscard]] uint32_t mappedHead(uint32_t head, uint32_t count, uint32_t heads_) const {
        return mapping == VKATTN_HEADS_MODULO ? head % heads_ : head / (count / heads_);
    }
    // Returns the head of an operand of the keys, other than the state, that belongs to a state head.
    [[nodiscard]] uint32_t keyHead(vkattn_role role, uint32_t stateHead) const {
        return mappedHead(stateHead, stateHeads, tensor(role).extent[1]);
    }
    // Both belong to a head of out.
    [[nodiscard]] uint32_t queryHead(uint32_t head) const { return mappedHead(head, heads, tensor(VKATTN_Q).extent[1]); }
    [[nodiscard]] uint32_t stateHead(uint32_t head) const { return mappedHead(head, heads, stateHeads); }
    // Returns the n-th head of out that reads a state head; there are heads / stateHeads.
    [[nodiscard]] uint32_t headOfState(uint32_t stateHead, uint32_t n) const {
        return mapping == VKATTN_HEADS_MODULO ? n * stateHeads + stateHead : stateHead * (heads / stateHeads) + n;
    }
    // Returns i' - i for a batch entry of so many keys.
    [[nodiscard]] int64_t positionOfRow(uint32_t keys) const { return topLeft ? 0 : int64_t{keys} - queryTokens; }

    // 2 for each multiply-add of the recurrent form, features included.
    [[nodiscard]] double flops() const;
};

[[nodiscard]] vkattn_result makeLinear(const vkattn_linear_attention *description, LinearAttention &out, vkattn_diagnostic *why);

} // namespace vkattn
