#include "sampler.hpp"

#include <algorithm>
#include <cmath>

namespace story {

float Sampler::coin() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const auto bits = static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Dull) >> 32);
    return static_cast<float>(bits >> 8) / 16777216.0f;
}

uint32_t Sampler::choose(std::span<float> logits) {
    const auto largest = std::max_element(logits.begin(), logits.end());
    if (how_.temperature == 0) return static_cast<uint32_t>(largest - logits.begin());
    const float most = *largest / how_.temperature;
    float sum = 0;
    for (float &each : logits) sum += each = std::exp(each / how_.temperature - most);
    for (float &each : logits) each /= sum;
    const float drawn = coin();
    if (how_.topP > 0 && how_.topP < 1) return drawFromNucleus(logits, drawn);
    float below = 0;
    for (size_t n = 0; n < logits.size(); ++n)
        if (drawn < (below += logits[n])) return static_cast<uint32_t>(n);
    return static_cast<uint32_t>(logits.size() - 1); // rounding
}

uint32_t Sampler::drawFromNucleus(std::span<const float> probabilities, float coin) {
    // Tokens below the cutoff are in no nucleus: all others together have more than 1 - topP left.
    const float cutoff = (1.0f - how_.topP) / static_cast<float>(std::max<size_t>(probabilities.size() - 1, 1));
    candidates_.clear();
    for (size_t n = 0; n < probabilities.size(); ++n)
        if (probabilities[n] >= cutoff) candidates_.emplace_back(probabilities[n], static_cast<uint32_t>(n));
    if (candidates_.empty()) // logits that are not finite
        return static_cast<uint32_t>(std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    float nucleus = 0;
    size_t count = 0;
    while (count < candidates_.size() && nucleus <= how_.topP) nucleus += candidates_[count++].first;
    float below = 0;
    for (size_t n = 0; n < count; ++n)
        if (coin * nucleus < (below += candidates_[n].first)) return candidates_[n].second;
    return candidates_[count - 1].second; // rounding
}

} // namespace story
