// The programs of hooks/, each with the same attention without a program: an option of the library, or a bias of every
// pair.
#pragma once

#include <vkattn/program.hpp>
#include <vkattn/runtime.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace programs {

// An attention with its data, self-attention of square grids of tokens.
struct Attention {
    Attention(uint32_t batch, uint32_t heads, uint32_t side, uint32_t dim, vkattn_dtype type);
    Attention(const Attention &) = delete;
    Attention &operator=(const Attention &) = delete;

    vkattn_problem problem{};
    std::vector<vkattn_operand_memory> operands;
    std::vector<float> out;

    // Memory of its own for an operand.
    void add(vkattn_role role, std::vector<uint32_t> words);
    void add(vkattn_role role, const std::vector<float> &numbers);
    // Multiply a head of q, and a key's value of all heads; of f32.
    void scaleQuery(uint32_t head, float factor);
    void scaleValue(uint32_t key, float factor);
    // A bias [1, heads, tokens, tokens] of bias(head, query, key).
    template <class Bias> void addBias(const Bias &bias) {
        std::vector<float> all;
        const uint32_t heads = problem.q.extent[1], tokens = problem.q.extent[2];
        for (uint32_t h = 0; h < heads; ++h)
            for (uint32_t i = 0; i < tokens; ++i)
                for (uint32_t j = 0; j < tokens; ++j) all.push_back(bias(h, i, j));
        problem.bias = {VKATTN_F32, {1, heads, tokens, tokens}, {int64_t{heads} * tokens * tokens, int64_t{tokens} * tokens, tokens, 1}, 0};
        add(VKATTN_BIAS, all);
    }
    // Rows, and columns, of the grid.
    uint32_t side;

  private:
    std::deque<std::vector<uint32_t>> memory_;
};

struct Example {
    const char *name;    // hooks/NAME.glsl
    const char *builtIn; // what is the same without a program
    void (*program)(Attention &);
    void (*without)(Attention &);
};
[[nodiscard]] const std::vector<Example> &examples();

// The text of an example's file in `folder`; empty where it cannot be read.
[[nodiscard]] std::string textOf(const std::string &folder, const Example &example);

} // namespace programs
