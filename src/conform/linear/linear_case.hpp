// Linear attention with its data, drawn: every rule and feature map, heads that are shared, lengths, states, any
// layout.
#pragma once

#include "conform/cases/case.hpp"
#include "vkattn/cpu.h"
#include "vkattn/operations.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::conform {

struct LinearOptions {
    std::optional<vkattn_linear_rule> rule{}; // otherwise drawn
    uint32_t tokens = 0;                      // of keys; 0: drawn
    bool drawLayouts = true;                  // otherwise packed, f32
    bool spoils = true;                       // something that is looked at may be not finite
};

struct LinearCase {
    vkattn_linear_attention linear{};
    std::map<vkattn_role, HostTensor> tensors;
    std::vector<uint32_t> lengths; // of VKATTN_KEY_LENGTHS
    bool inPlace = false;          // stateOut has the memory of stateIn

    // Of the case itself, which outlives what is returned.
    [[nodiscard]] vkattn_operation operation() const { return vkattn::operation(linear); }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands() { return operandsAfter(*this); }
    // The operands for a verifier: inputs are those of `before`.
    [[nodiscard]] std::vector<vkattn_operand_memory> operandsAfter(LinearCase &before);
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    [[nodiscard]] HostTensor &output(vkattn_role role) { return tensors.at(inPlace && role == VKATTN_STATE_OUT ? VKATTN_STATE_IN : role); }
    [[nodiscard]] std::vector<vkattn_role> outputs() const;
    [[nodiscard]] uint32_t keys(uint32_t b) const; // of a batch entry
    [[nodiscard]] bool sameOutputs(LinearCase &other);
    // Empty: nothing but elements of outputs differs from `before`.
    [[nodiscard]] std::string damage(LinearCase &before);
    [[nodiscard]] std::string text();
    // Empty, or what is wrong with the outputs: beyond the bounds of docs/numerics.md, or bytes that changed and must
    // not.
    [[nodiscard]] std::string wrong(LinearCase &before, vkattn_verify_report *report = nullptr);

    // Makes the memory of all layouts, with values that suit the rule.
    void fill(Random &random);
};

inline constexpr vkattn_role linearRoles[] = {VKATTN_Q,     VKATTN_K,        VKATTN_V,   VKATTN_DECAY,     VKATTN_WRITE_STRENGTH,
                                              VKATTN_OMEGA, VKATTN_STATE_IN, VKATTN_OUT, VKATTN_STATE_OUT, VKATTN_SNAPSHOTS};

// NaN lies wherever nothing may look; now and then something that is looked at is not finite either.
[[nodiscard]] LinearCase drawLinear(Random &random, const LinearOptions &options = {});

} // namespace vkattn::conform
