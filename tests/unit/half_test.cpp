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
