// The gradients of small linear attentions with numbers that a test chooses: dense, f32, of every operand.
#pragma once

#include "unit/linear/small_scan.hpp"

namespace vkattn::test {

struct SmallGradient {
    SmallScan forward;
    vkattn_linear_gradient gradient{};
    std::map<vkattn_role, std::vector<float>> arrays;
    uint32_t nonfinite = 0;

    // Of all that the forward pass has; dStateOut where it has a stateOut.
    explicit SmallGradient(SmallScan forward);

    [[nodiscard]] vkattn_operation operation();
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    std::vector<float> &add(vkattn_role role, const uint32_t (&extents)[4]);
    [[nodiscard]] std::vector<float> &operator[](vkattn_role role) { return arrays[role]; }
    // Draws dOut and dStateOut from N(0, 1).
    void draw(Random &random);
    [[nodiscard]] std::vector<vkattn_operand_memory> memory();
    void run(uint32_t threads = 0);
    void runOracle();
    // Empty, or the worst element.
    [[nodiscard]] std::string wrong();
};

inline constexpr vkattn_role smallGradients[] = {VKATTN_D_Q,       VKATTN_D_K, VKATTN_D_V, VKATTN_D_DECAY, VKATTN_D_WRITE_STRENGTH,
                                                 VKATTN_D_STATE_IN};
// What a gradient is with respect to.
[[nodiscard]] vkattn_role sourceOf(vkattn_role gradient);

// Every rule and feature map with states, features causal and not.
[[nodiscard]] std::vector<SmallScan> everySmallScan(Random &random, uint32_t tokens);

} // namespace vkattn::test
