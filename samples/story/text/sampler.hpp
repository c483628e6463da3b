// Chooses the next token from a model's logits: the most probable, or one drawn by temperature and
// from the nucleus of top-p (Holtzman et al. 2019).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace story {

struct Sampling {
    float temperature = 0; // 0: the most probable token, always
    float topP = 0.9f;     // 0 or 1: all tokens may be drawn
    uint64_t seed = 1;     // not 0
};

// Draws are those of llama2.c for the same seed and logits: xorshift64* (Vigna 2016), a coin of 24
// bits for each token.
class Sampler {
  public:
    explicit Sampler(const Sampling &how) : how_(how), state_(how.seed) {}
    // Not empty. With a temperature the logits become probabilities.
    [[nodiscard]] uint32_t choose(std::span<float> logits);

  private:
    [[nodiscard]] float coin(); // from 0 to below 1
    [[nodiscard]] uint32_t drawFromNucleus(std::span<const float> probabilities, float coin);

    Sampling how_;
    uint64_t state_;
    std::vector<std::pair<float, uint32_t>> candidates_;
};

} // namespace story
