// The conversions of 16-bit floats, one by one and, by the public vkattnConvert, in arrays.
#include "util/half.hpp"

#include "support/seed.hpp"
#include "vkattn/cpu.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

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

// The value of a 16-bit float from the definition of its format, in double.
double valueOf(uint32_t bits, int fractionBits, int exponentBits) {
    const int exponent = static_cast<int>(bits >> fractionBits) & ((1 << exponentBits) - 1), bias = (1 << (exponentBits - 1)) - 1;
    const int fraction = static_cast<int>(bits) & ((1 << fractionBits) - 1), one = 1 << fractionBits;
    double magnitude;
    if (exponent == (1 << exponentBits) - 1)
        magnitude = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    else
        magnitude = std::ldexp(exponent ? one + fraction : fraction, std::max(exponent, 1) - bias - fractionBits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

struct Format {
    const char *name;
    vkattn_dtype dtype;
    int fractionBits, exponentBits;
    [[nodiscard]] double value(uint32_t bits) const { return valueOf(bits, fractionBits, exponentBits); }
    [[nodiscard]] uint32_t infinity() const { return ((1u << exponentBits) - 1) << fractionBits; }
};
void PrintTo(const Format &format, std::ostream *out) {
    *out << format.name;
}

class Convert : public testing::TestWithParam<Format> {};

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

TEST(Bfloat16, everyValueComesBackAndNanIsQuiet) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto bits16 = static_cast<uint16_t>(bits);
        const float value = bfloat16ToFloat(bits16);
        EXPECT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
        const bool nan = (bits & 0x7fff) > 0x7f80;
        EXPECT_EQ(std::isnan(value), nan);
        EXPECT_EQ(floatToBfloat16(value), nan ? (bits & 0x8000) | 0x7fc0 : bits);
    }
    // Its upper half alone is infinity.
    EXPECT_EQ(floatToBfloat16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
    EXPECT_EQ(floatToBfloat16(std::bit_cast<float>(0xff80ffffu)), 0xffc0);
}

TEST(Bfloat16, roundsToNearestEven) {
    // Neighbours and their exact distances in double: the nearer one, or of two as near the even
    // one.
    const auto check = [](uint32_t bits) {
        const float value = std::bit_cast<float>(bits);
        if (!std::isfinite(value)) return;
        const uint32_t sign = bits >> 16 & 0x8000, low = bits >> 16 & 0x7fff;
        const double below = bfloat16ToFloat(static_cast<uint16_t>(low)), magnitude = std::fabs(static_cast<double>(value));
        const double above = low == 0x7f7f ? 0x1p128 : static_cast<double>(bfloat16ToFloat(static_cast<uint16_t>(low + 1)));
        const bool up = above - magnitude < magnitude - below || (above - magnitude == magnitude - below && low % 2 == 1);
        EXPECT_EQ(floatToBfloat16(value), sign | (up ? low + 1 : low)) << std::hexfloat << value;
    };
    auto random = test::randomFor("brain");
    for (int n = 0; n < 200000; ++n) check(static_cast<uint32_t>(random()));
    for (uint32_t bits16 = 0; bits16 < 65536; ++bits16)
        for (const uint32_t tail : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) check(bits16 << 16 | tail);
    EXPECT_EQ(floatToBfloat16(1.0f + 0x1p-8f), 0x3f80); // ties: to the even one, down and up
    EXPECT_EQ(floatToBfloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
    EXPECT_EQ(floatToBfloat16(0x1.fep127f), 0x7f7f);
    EXPECT_EQ(floatToBfloat16(0x1.fefffep127f), 0x7f7f);
    EXPECT_EQ(floatToBfloat16(0x1.ffp127f), 0x7f80);
    EXPECT_EQ(floatToBfloat16(-0x1.fffffep127f), 0xff80);
    EXPECT_EQ(floatToBfloat16(0x1p-134f), 0); // half the smallest denormal
    EXPECT_EQ(floatToBfloat16(-0x1.8p-133f), 0x8002);
}

// Every 16-bit value, at every offset from an aligned address: widened, the value is what its
// format says, and narrowed it comes back as it was.
TEST_P(Convert, everyValueIsWidenedExactlyAndComesBack) {
    const Format format = GetParam();
    constexpr uint32_t count = 65536;
    std::vector<uint16_t> all(count);
    std::iota(all.begin(), all.end(), uint16_t{0});
    for (const size_t offset : {0, 1, 3}) {
        std::vector<unsigned char> narrow(2 * count + offset), wide(4 * count + offset), back(2 * count + offset);
        std::memcpy(narrow.data() + offset, all.data(), 2 * count);
        ASSERT_EQ(vkattnConvert(format.dtype, narrow.data() + offset, VKATTN_F32, wide.data() + offset, count, nullptr), VKATTN_OK);
        ASSERT_EQ(vkattnConvert(VKATTN_F32, wide.data() + offset, format.dtype, back.data() + offset, count, nullptr), VKATTN_OK);
        for (uint32_t bits = 0; bits < count; ++bits) {
            float value;
            uint16_t again;
            std::memcpy(&value, wide.data() + offset + size_t{4} * bits, 4);
            std::memcpy(&again, back.data() + offset + size_t{2} * bits, 2);
            const double expected = format.value(bits);
            ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
            if (std::isnan(expected)) {
                ASSERT_TRUE(std::isnan(value)) << bits;
                ASSERT_EQ(std::bit_cast<uint32_t>(value) & 0x7fffff, (bits & ((1u << format.fractionBits) - 1))
                                                                         << (23 - format.fractionBits))
                    << "the payload of " << bits;
                ASSERT_EQ(again, (bits & 0x8000) | format.infinity() | 1u << (format.fractionBits - 1)) << bits;
            } else {
                ASSERT_EQ(static_cast<double>(value), expected) << bits;
                ASSERT_EQ(again, bits);
            }
        }
    }
}

// Around every boundary between two neighbours: below, on and above their middle, with either sign.
TEST_P(Convert, everyMiddleRoundsToEvenAndItsNeighboursToTheNearest) {
    const Format format = GetParam();
    std::vector<float> values;
    std::vector<uint16_t> expected;
    for (uint32_t low = 0; low < format.infinity(); ++low) {
        // The largest finite value's next neighbour would be the power of two that infinity takes
        // the place of.
        const double next = low + 1 == format.infinity() ? std::ldexp(1.0, 1 << (format.exponentBits - 1)) : format.value(low + 1);
        const auto middle = static_cast<float>((format.value(low) + next) / 2);
        for (const uint32_t sign : {0u, 0x8000u})
            for (const int step : {-1, 0, 1}) {
                values.push_back(std::bit_cast<float>((std::bit_cast<uint32_t>(middle) + static_cast<uint32_t>(step)) | sign << 16));
                expected.push_back(static_cast<uint16_t>(sign | (low + (step > 0 || (step == 0 && low % 2 == 1) ? 1 : 0))));
            }
    }
    std::vector<uint16_t> got(values.size());
    ASSERT_EQ(vkattnConvert(VKATTN_F32, values.data(), format.dtype, got.data(), values.size(), nullptr), VKATTN_OK);
    for (size_t n = 0; n < got.size(); ++n) ASSERT_EQ(got[n], expected[n]) << std::hexfloat << values[n];
}

INSTANTIATE_TEST_SUITE_P(Formats, Convert, testing::Values(Format{"f16", VKATTN_F16, 10, 5}, Format{"bf16", VKATTN_BF16, 7, 8}),
                         [](const auto &format) { return format.param.name; });

TEST(ConvertArguments, badOnesAreRefusedAndNothingIsWritten) {
    std::vector<unsigned char> memory(64, 0xa5);
    const std::vector<unsigned char> before = memory;
    unsigned char *from = memory.data(), *to = memory.data() + 32;
    const auto refused = [&](vkattn_dtype fromType, const void *source, vkattn_dtype toType, void *target, uint64_t count,
                             const std::string &expected) {
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnConvert(fromType, source, toType, target, count, &why), VKATTN_ERROR_INVALID_ARGUMENT) << expected;
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused(VKATTN_F32, from, VKATTN_F32, to, 1, "no conversion from dtype 0 to dtype 0");
    refused(VKATTN_F16, from, VKATTN_BF16, to, 1, "no conversion");
    refused(VKATTN_BOOL8, from, VKATTN_F32, to, 1, "no conversion");
    refused(VKATTN_F32, from, VKATTN_BITS32, to, 1, "no conversion");
    refused(VKATTN_F16, nullptr, VKATTN_F32, to, 1, "from is NULL with count 1");
    refused(VKATTN_F16, from, VKATTN_F32, nullptr, 1, "to is NULL with count 1");
    refused(VKATTN_F16, from, VKATTN_F32, from, 4, "overlap");
    refused(VKATTN_F16, from + 15, VKATTN_F32, from, 4, "overlap");
    refused(VKATTN_F32, from, VKATTN_F16, from + 15, 4, "overlap");
    EXPECT_EQ(memory, before);
    EXPECT_EQ(vkattnConvert(VKATTN_F16, from + 16, VKATTN_F32, from, 4, nullptr), VKATTN_OK) << "neighbours do not overlap";
    EXPECT_EQ(vkattnConvert(VKATTN_F16, nullptr, VKATTN_F32, nullptr, 0, nullptr), VKATTN_OK) << "nothing to convert";
}
