// The task: sequences of random symbols, then as many blanks, in which the symbols stand again.
#pragma once

#include <cstdint>
#include <vector>

namespace train {

struct Shape {
    uint32_t symbols = 26, copied = 16; // of a sequence as many symbols, and as many blanks
    uint32_t sequences = 16;            // together in a step
    uint32_t dims = 32, heads = 2;

    [[nodiscard]] uint32_t positions() const { return 2 * copied; }
    [[nodiscard]] uint32_t rows() const { return sequences * positions(); }
    [[nodiscard]] uint32_t tokens() const { return symbols + 1; } // with the blank, which comes last
    [[nodiscard]] uint32_t columns() const { return tokens() + positions(); }
    [[nodiscard]] uint32_t headDim() const { return dims / heads; }
};

constexpr uint32_t noTarget = 0xffffffffu;

// Sequences one behind the other: a token and a target for each row.
struct Batch {
    std::vector<uint32_t> tokens, targets;
};

// What random numbers are for. Each has streams of its own, one for each step.
enum class Purpose : uint32_t { weights, training, evaluation };

// The sequences of one step.
[[nodiscard]] Batch drawBatch(const Shape &shape, uint64_t seed, Purpose purpose, uint32_t step);

} // namespace train
