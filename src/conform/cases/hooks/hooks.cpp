#include "conform/cases/hooks/hooks.hpp"

#include "conform_hooks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace vkattn::conform {
namespace {

uint32_t wordOf(const vkattn_program_pair *pair, uint32_t buffer, uint32_t n) {
    const uint32_t words = pair->bufferWords[buffer];
    return words == 0 ? 0 : pair->buffers[buffer][std::min(n, words - 1)];
}

double score(double score, const vkattn_program_pair *pair) {
    const auto added = std::bit_cast<float>(wordOf(pair, 0, (pair->key * 5 + pair->query * 3 + pair->head) % 61));
    const auto perToken = std::bit_cast<float>(pair->words[1]);
    const auto far = static_cast<double>(std::abs(int64_t{pair->key} - pair->position) % 17);
    return score - 0.25 * std::clamp(score, -8.0, 8.0) + static_cast<double>(added) - static_cast<double>(perToken) * far +
           0.125 * (pair->batch & 1);
}
double scoreSlope(double score, const vkattn_program_pair *) {
    return std::abs(score) < 8 ? 0.75 : 1.0;
}
uint32_t visible(const vkattn_program_pair *pair) {
    if (pair->key + 1 == pair->keyTokens || pair->bufferWords[1] == 0) return 1;
    const uint32_t word = wordOf(pair, 1, (pair->query * 7 + pair->key / 3 + pair->head * 5 + pair->batch) % 47);
    return word >> ((pair->key + pair->words[0]) & 31) & 1;
}
double probability(double p, const vkattn_program_pair *pair) {
    return p * (0.25 * ((pair->key * 3 + pair->query * 5 + pair->head + pair->batch) % 7) - 0.375);
}
double row(double score) {
    return 1 / (1 + std::exp(-score));
}

} // namespace

const vkattn_program *programOf(Hooks hooks) {
    // The modules have all hooks, and a problem uses those that its program has.
    static const auto with = [](uint32_t bits) {
        vkattn_program program = conform_hooks;
        program.hooks = bits;
        program.score = score;
        program.scoreSlope = scoreSlope;
        program.visible = visible;
        program.probability = probability;
        program.row = row;
        return program;
    };
    constexpr uint32_t ofScores = VKATTN_HOOK_SCORE | VKATTN_HOOK_SCORE_SLOPE;
    static const vkattn_program score_ = with(ofScores), visible_ = with(VKATTN_HOOK_VISIBLE), both = with(ofScores | VKATTN_HOOK_VISIBLE),
                                probability_ = with(VKATTN_HOOK_PROBABILITY),
                                all = with(ofScores | VKATTN_HOOK_VISIBLE | VKATTN_HOOK_PROBABILITY),
                                row_ = with(VKATTN_HOOK_ROW | VKATTN_HOOK_PROBABILITY), sigmoid = with(VKATTN_HOOK_ROW);
    switch (hooks) {
    case Hooks::score:
        return &score_;
    case Hooks::visible:
        return &visible_;
    case Hooks::both:
        return &both;
    case Hooks::probability:
        return &probability_;
    case Hooks::all:
        return &all;
    case Hooks::row:
        return &row_;
    case Hooks::sigmoid:
        return &sigmoid;
    default:
        return nullptr;
    }
}

} // namespace vkattn::conform
