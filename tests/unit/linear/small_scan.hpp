// Small linear attentions with numbers that a test chooses: dense, f32.
#pragma once

#include "unit/cpu/cpu_runs.hpp"
#include "vkattn/operations.hpp"

#include <map>
#include <vector>

namespace vkattn::test {

struct SmallScan {
    vkattn_linear_attention linear{};
    std::map<vkattn_role, std::vector<float>> arrays;
    std::vector<uint32_t> lengths;

    // Of as many queries as keys.
    SmallScan(vkattn_linear_rule rule, uint32_t heads, uint32_t tokens, uint32_t keyDim, uint32_t valueDim);

    [[nodiscard]] vkattn_operation operation() const { return vkattn::operation(linear); }
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    // Adds an operand, dense.
    std::vector<float> &add(vkattn_role role, uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dims);
    [[nodiscard]] std::vector<float> &operator[](vkattn_role role) { return arrays[role]; }
    // Draws every input from N(0, 1), times a factor.
    void draw(Random &random, float factor = 1);
    // Adds both states of the rule.
    void addStates();
    [[nodiscard]] uint32_t stateRows() const;
    [[nodiscard]] uint32_t stateColumns() const;
    [[nodiscard]] std::vector<vkattn_operand_memory> memory();
    void run(uint32_t threads = 0);
    void runOracle();
    // Empty, or the worst element.
    [[nodiscard]] std::string wrong();
    // A call on tokens first to first + count - 1 that goes on where `before` has ended; NULL: at this one's stateIn.
    [[nodiscard]] SmallScan part(uint32_t first, uint32_t count, SmallScan *before);
};

} // namespace vkattn::test
