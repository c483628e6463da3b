// Random numbers that any machine repeats. std::mt19937_64 and std::seed_seq are specified to the bit;
// the standard library's distributions are not, so what the numbers become is written here.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>

namespace vkattn::program {

class Random {
  public:
    // A stream of its own for each purpose and step.
    Random(uint64_t seed, uint32_t purpose, uint32_t step) : engine_(engineOf(seed, purpose, step)) {}

    [[nodiscard]] uint32_t below(uint32_t count) { return static_cast<uint32_t>((engine_() >> 32) * count >> 32); }
    // From -most to most, in steps of 2^-23 of that.
    [[nodiscard]] float within(float most) { return (static_cast<float>(engine_() >> 40) * 0x1p-23f - 1) * most; }
    // From the normal distribution of mean 0 and variance 1 (Box and Muller 1958), two of one draw. A
    // mathematics library may round a logarithm or a cosine otherwise; rounded to float, nearly all
    // numbers are the same.
    [[nodiscard]] float normal() {
        if (second_) {
            const float kept = *second_;
            second_.reset();
            return kept;
        }
        const uint64_t bits = engine_();
        const double radius = std::sqrt(-2 * std::log((static_cast<double>(bits >> 32) + 1) * 0x1p-32)); // of 2^-32 to 1
        const double angle = static_cast<double>(bits & 0xffffffffu) * (0x1p-31 * 3.14159265358979323846);
        second_ = static_cast<float>(radius * std::sin(angle));
        return static_cast<float>(radius * std::cos(angle));
    }

  private:
    [[nodiscard]] static std::mt19937_64 engineOf(uint64_t seed, uint32_t purpose, uint32_t step) {
        std::seed_seq words = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), purpose, step};
        return std::mt19937_64(words);
    }

    std::mt19937_64 engine_;
    std::optional<float> second_;
};

} // namespace vkattn::program
