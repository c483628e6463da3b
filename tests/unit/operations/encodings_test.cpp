// The tables of position encodings against figures of the papers and of other programs.
#include "vkattn/operations.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace {

void refused(vkattn_result result, const vkattn_diagnostic &why, const std::string &expected) {
    EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
}

} // namespace

TEST(Encodings, rotaryFrequenciesFallFromOne) {
    constexpr uint32_t n = 64, half = n / 2;
    std::vector<float> cosines(2 * half), sines(2 * half);
    ASSERT_EQ(vkattnRotaryTable(2, n, 10000, cosines.data(), sines.data(), nullptr), VKATTN_OK);
    for (uint32_t i = 0; i < half; ++i) {
        EXPECT_EQ(cosines[i], 1.0f);
        EXPECT_EQ(sines[i], 0.0f);
        const double angle = std::atan2(static_cast<double>(sines[half + i]), static_cast<double>(cosines[half + i]));
        EXPECT_NEAR(angle, std::pow(10000.0, -2.0 * i / n), 1e-7) << i;
        EXPECT_LT(sines[half + i], i > 0 ? sines[half + i - 1] : 1.0f);
    }
    EXPECT_EQ(sines[half], std::sin(1.0f)) << "frequency 0 is 1";
}

TEST(Encodings, rotaryTableIsExactFarOut) {
    constexpr uint32_t positions = 1000001;
    std::vector<float> cosines(2 * positions), sines(2 * positions);
    ASSERT_EQ(vkattnRotaryTable(positions, 4, 10000, cosines.data(), sines.data(), nullptr), VKATTN_OK);
    // cos and sin of 1,000,000 and of 10,000, to 20 digits.
    EXPECT_NEAR(cosines[2 * 1000000], 0.93675212753314478695, 6e-8);
    EXPECT_NEAR(sines[2 * 1000000], -0.34999350217129295212, 6e-8);
    EXPECT_NEAR(cosines[2 * 1000000 + 1], -0.95215536825901485160, 6e-8);
    EXPECT_NEAR(sines[2 * 1000000 + 1], -0.30561438888825214137, 6e-8);
}

TEST(Encodings, rotaryTableRefuses) {
    float one[4];
    vkattn_diagnostic why{};
    refused(vkattnRotaryTable(1, 2, 10000, nullptr, one, &why), why, "cos is NULL");
    refused(vkattnRotaryTable(1, 2, 10000, one, nullptr, &why), why, "sin is NULL");
    for (const uint32_t n : {0u, 3u, 65538u}) refused(vkattnRotaryTable(1, n, 10000, one, one + 1, &why), why, "n is " + std::to_string(n));
    refused(vkattnRotaryTable((1u << 30) + 1, 2, 10000, one, one + 1, &why), why, "positions is");
    for (const double base : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")})
        refused(vkattnRotaryTable(1, 2, base, one, one + 1, &why), why, "base is");
    EXPECT_EQ(vkattnRotaryTable(0, 2, 10000, one, one + 1, nullptr), VKATTN_OK);
}

TEST(Encodings, sinusoidsAreThoseOfThePaper) {
    for (const uint32_t dims : {1u, 2u, 5u, 8u}) {
        constexpr uint32_t start = 3, count = 4;
        std::vector<float> table(count * dims + 1, 7.0f);
        ASSERT_EQ(vkattnSinusoids(start, count, dims, 10000, table.data(), nullptr), VKATTN_OK);
        for (uint32_t n = 0; n < count; ++n)
            for (uint32_t d = 0; d < dims; ++d) {
                const double angle = (start + n) / std::pow(10000.0, (d - d % 2) / static_cast<double>(dims));
                EXPECT_NEAR(table[n * dims + d], d % 2 ? std::cos(angle) : std::sin(angle), 6e-8) << dims << " dims, " << n << ", " << d;
            }
        EXPECT_EQ(table.back(), 7.0f) << "wrote past the end";
    }
    float one[2];
    vkattn_diagnostic why{};
    refused(vkattnSinusoids(0, 1, 2, 10000, nullptr, &why), why, "out is NULL");
    refused(vkattnSinusoids(0, 1, 0, 10000, one, &why), why, "dims is 0");
    refused(vkattnSinusoids(0, 1, (1u << 20) + 1, 10000, one, &why), why, "dims is 1048577");
    refused(vkattnSinusoids(0, 1, 2, 0, one, &why), why, "base is 0");
    // Positions do not wrap.
    ASSERT_EQ(vkattnSinusoids(0xffffffffu, 1, 2, 10000, one, nullptr), VKATTN_OK);
    EXPECT_NEAR(one[0], std::sin(4294967295.0), 6e-8);
}

TEST(Encodings, alibiSlopesAreThoseOfThePaper) {
    const std::vector<float> twelve = {0.5f,       0.25f,       0.125f,      0.0625f,     0.03125f,    0.015625f,
                                       0.0078125f, 0.00390625f, 0.70710678f, 0.35355339f, 0.17677670f, 0.08838835f};
    std::vector<float> slopes(12);
    ASSERT_EQ(vkattnAlibiSlopes(12, slopes.data(), nullptr), VKATTN_OK);
    for (uint32_t h = 0; h < 12; ++h) EXPECT_FLOAT_EQ(slopes[h], twelve[h]) << h;
    ASSERT_EQ(vkattnAlibiSlopes(1, slopes.data(), nullptr), VKATTN_OK);
    EXPECT_EQ(slopes[0], 0x1p-8f);
    ASSERT_EQ(vkattnAlibiSlopes(4, slopes.data(), nullptr), VKATTN_OK);
    for (int h = 0; h < 4; ++h) EXPECT_EQ(slopes[static_cast<size_t>(h)], std::ldexp(1.0f, -2 * (h + 1)));
    vkattn_diagnostic why{};
    refused(vkattnAlibiSlopes(0, slopes.data(), &why), why, "heads is 0");
    refused(vkattnAlibiSlopes(4, nullptr, &why), why, "out is NULL");
}

TEST(Encodings, t5BucketsAreThoseOfT5) {
    const auto both = [](int32_t relative) { return vkattnT5Bucket(relative, 1, 32, 128); };
    for (int32_t n = 0; n < 8; ++n) {
        EXPECT_EQ(both(-n), static_cast<uint32_t>(n));
        EXPECT_EQ(both(n), (n > 0 ? 16u : 0u) + static_cast<uint32_t>(n));
    }
    EXPECT_EQ(both(-8), 8u);
    EXPECT_EQ(both(7), 23u);
    EXPECT_EQ(both(16), 26u);
    EXPECT_EQ(both(127), 31u);
    EXPECT_EQ(both(INT32_MAX), 31u);
    EXPECT_EQ(both(INT32_MIN), 15u);
    const auto causal = [](int32_t relative) { return vkattnT5Bucket(relative, 0, 32, 128); };
    for (int32_t n = 0; n < 16; ++n) EXPECT_EQ(causal(-n), static_cast<uint32_t>(n));
    EXPECT_EQ(causal(5), 0u);
    EXPECT_EQ(causal(-16), 16u);
    EXPECT_EQ(causal(-128), 31u);
    EXPECT_EQ(causal(INT32_MIN), 31u);
    // Buckets rise with the distance and leave out none.
    uint32_t last = 0;
    for (int32_t n = 0; n <= 200; ++n) {
        const uint32_t bucket = causal(-n);
        EXPECT_TRUE(bucket == last || bucket == last + 1) << n;
        last = bucket;
    }
    EXPECT_EQ(last, 31u);
    // Rules that are broken.
    EXPECT_EQ(vkattnT5Bucket(-5, 0, 2, 128), 0u);
    EXPECT_EQ(vkattnT5Bucket(-5, 0, 30, 128), 0u);
    EXPECT_EQ(vkattnT5Bucket(-5, 0, 32, 16), 0u);
}
