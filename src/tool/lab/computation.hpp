// Attention and its gradients on the Runtime's device, from arrays of numbers to arrays of numbers.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <vector>

namespace vkattn::tool::lab {

using Numbers = std::vector<float>;

// `batch` entries of one head each, all dense and f32.
struct Attention {
    uint32_t batch = 1, queries = 1, keys = 1, dim = 1, valueDim = 1;
    Numbers q, k, v;              // v empty: zeros
    Numbers bias{};               // [batch, query, key], or none
    std::vector<uint32_t> mask{}; // bits of [query, ceil(keys / 32)] for all entries, or none
    float scale = 1;
    vkattn_problem options{}; // flags and windows; the rest is set from what is here

    [[nodiscard]] size_t pairs() const { return size_t{batch} * queries * keys; }
};

// Each throws Failure where the device fails and the options forbid the CPU.
[[nodiscard]] Numbers weightsOf(Runtime &runtime, const Attention &attention);                          // [batch, query, key]
[[nodiscard]] Numbers scoresOf(Runtime &runtime, const Attention &attention, vkattn_score_stage stage); // [batch, query, key]

struct Gradients {
    Numbers out;        // of the forward pass
    Numbers weights;    // likewise
    Numbers dQ, dK, dV; // as q, k and v
    Numbers dScores;    // [batch, query, key]: dS, of the scores after scaling
};
// Runs the forward and the backward pass. dOut: [batch, query, value dim].
[[nodiscard]] Gradients gradientsOf(Runtime &runtime, const Attention &attention, const Numbers &dOut);

// The pairs that the oracle says are visible, 1 or 0: [query, key] of the first entry.
[[nodiscard]] std::vector<unsigned char> visiblePairs(const Attention &attention);

// Draws `count` numbers from the normal distribution.
template <class Random> [[nodiscard]] Numbers normals(Random &random, size_t count) {
    Numbers numbers(count);
    for (float &each : numbers) each = random.normal();
    return numbers;
}

} // namespace vkattn::tool::lab
