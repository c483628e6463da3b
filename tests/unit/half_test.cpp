#include "util/half.hpp"

#include "support/seed.hpp"

#include <cmath>
#include <gtest/gtest.h>

using namespace vkattn;

namespace {

// The nearest halves by search over all of them: slow and plainly right.
uint16_t nearestHalf(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
    const double magnitude = std::fabs(static_cast<double>(value));
    const auto valueOf = [](uint32_t half) {
        return half == 0x7c00 ? 65536.0 : static_cast<double>(halfToFloat(static_cast<uint16_t>(half)));
    };
    uint32_t low = 0, high = 0x7c00;
    if (magnitude >= 65536) return static_cast<uint16_t>(sign | 0x7c00);
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (valueOf(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - valueOf(low), above = valueOf(high) - magnitude;
    return static_cast<uint16_t>(sign | (below < above || (below == above && low % 2 == 0) ? low : high));
}

} // namespace

TEST(Half, everyHalfHasItsValueAndComesBack) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        const float value = halfToFloat(half);
        const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
        if (exponent == 31 && mantissa) {
            EXPECT_TRUE(std::isnan(value));
            EXPECT_EQ(floatToHalf(value), (bits & 0x8000) | 0x7e00);
            continue;
        }
        const double expected = exponent == 31 ? INFINITY
                                : exponent     ? std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25)
                                               : std::ldexp(1.0 * mantissa, -24);
        EXPECT_EQ(value, bits & 0x8000 ? -expected : expected);
        EXPECT_EQ(floatToHalf(value), half);
    }
}

TEST(Half, roundsToNearestEven) {
    auto random = test::randomFor("half");
    const auto check = [](uint32_t bits) {
        const float value = std::bit_cast<float>(bits);
        EXPECT_EQ(floatToHalf(value), nearestHalf(value)) << std::hexfloat << value;
    };
    for (int n = 0; n < 200000; ++n) check(static_cast<uint32_t>(random()));
    for (uint32_t half = 0; half < 0x7c00; ++half) { // around every boundary between two halves
        const auto lower = halfToFloat(static_cast<uint16_t>(half));
        const auto upper = half == 0x7bff ? 65536.0f : halfToFloat(static_cast<uint16_t>(half + 1));
        const uint32_t middle = std::bit_cast<uint32_t>((lower + upper) / 2);
        for (const uint32_t bits : {middle - 1, middle, middle + 1}) check(bits);
    }
}

TEST(Brain, everyValueComesBackAndNanIsQuiet) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto brain = static_cast<uint16_t>(bits);
        const float value = brainToFloat(brain);
        EXPECT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
        const bool nan = (bits & 0x7fff) > 0x7f80;
        EXPECT_EQ(std::isnan(value), nan);
        EXPECT_EQ(floatToBrain(value), nan ? (bits & 0x8000) | 0x7fc0 : bits);
    }
    EXPECT_EQ(floatToBrain(std::bit_cast<float>(0x7f800001u)), 0x7fc0); // its upper half alone is infinity
    EXPECT_EQ(floatToBrain(std::bit_cast<float>(0xff80ffffu)), 0xffc0);
}

TEST(Brain, roundsToNearestEven) {
    // Neighbours and their exact distances in double: the nearer one, or of two as near the even one.
    const auto check = [](uint32_t bits) {
        const float value = std::bit_cast<float>(bits);
        if (!std::isfinite(value)) return;
        const uint32_t sign = bits >> 16 & 0x8000, low = bits >> 16 & 0x7fff;
        const double below = brainToFloat(static_cast<uint16_t>(low)), magnitude = std::fabs(static_cast<double>(value));
        const double above = low == 0x7f7f ? 0x1p128 : static_cast<double>(brainToFloat(static_cast<uint16_t>(low + 1)));
        const bool up = above - magnitude < magnitude - below || (above - magnitude == magnitude - below && low % 2 == 1);
        EXPECT_EQ(floatToBrain(value), sign | (up ? low + 1 : low)) << std::hexfloat << value;
    };
    auto random = test::randomFor("brain");
    for (int n = 0; n < 200000; ++n) check(static_cast<uint32_t>(random()));
    for (uint32_t brain = 0; brain < 65536; ++brain)
        for (const uint32_t tail : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) check(brain << 16 | tail);
    EXPECT_EQ(floatToBrain(1.0f + 0x1p-8f), 0x3f80); // ties: to the even one, down and up
    EXPECT_EQ(floatToBrain(1.0f + 3 * 0x1p-8f), 0x3f82);
    EXPECT_EQ(floatToBrain(0x1.fep127f), 0x7f7f);
    EXPECT_EQ(floatToBrain(0x1.fefffep127f), 0x7f7f);
    EXPECT_EQ(floatToBrain(0x1.ffp127f), 0x7f80);
    EXPECT_EQ(floatToBrain(-0x1.fffffep127f), 0xff80);
    EXPECT_EQ(floatToBrain(0x1p-134f), 0); // half the smallest denormal
    EXPECT_EQ(floatToBrain(-0x1.8p-133f), 0x8002);
}
