// Which pairs dropout keeps: Philox against its authors' numbers, the rule of problem.h against numbers
// that were computed apart from this library, the statistics of what is kept, and what the oracle and
// the fallback make of it.
#include "problem/dropout.hpp"
#include "vkattn/cpu.h"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace vkattn;

namespace {

void expectWords(const PhiloxCounter &got, const uint32_t (&expected)[4]) {
    for (int n = 0; n < 4; ++n) EXPECT_EQ(got.words[n], expected[n]) << n;
}

TEST(Dropout, philoxIsThatOfItsAuthors) { // Random123, kat_vectors: philox4x32 10
    expectWords(philox({{0, 0, 0, 0}}, {{0, 0}}), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
    expectWords(philox({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}}), {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
    expectWords(philox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, {{0xa4093822u, 0x299f31d0u}}),
                {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST(Dropout, wordsOfKeysAreThoseOfTheRule) {
    const DropoutPlane plane{42, 7, 6};
    constexpr uint32_t expected[] = {0x43891be6u, 0x98441154u, 0xbe4fbe68u, 0x027071b6u, 0x4760d2e5u,
                                     0xb32dddbdu, 0x8445848fu, 0xd9fa4348u, 0x193d2c9bu};
    for (uint32_t j = 0; j < 9; ++j) {
        EXPECT_EQ(plane.words(3, j / 4).words[j % 4], expected[j]) << j;
        EXPECT_EQ(vkattnDropoutKeeps(0.1, 42, 7, 6, 3, j), j == 3 || j == 8 ? 0u : 1u) << j;
    }
    // The seed has 64 bits.
    bool differs = false;
    for (uint32_t j = 0; j < 64; ++j)
        differs |= vkattnDropoutKeeps(0.5, 42, 7, 6, 3, j) != vkattnDropoutKeeps(0.5, 42 + (1ull << 32), 7, 6, 3, j);
    EXPECT_TRUE(differs);
}

TEST(Dropout, thresholdsOfTheEnds) {
    EXPECT_EQ(dropoutThreshold(0), 0u);
    EXPECT_EQ(dropoutThreshold(1), 1ull << 32);
    EXPECT_EQ(dropoutThreshold(0.1), 0x1999999au);
    EXPECT_EQ(dropoutThreshold(0x1p-34), 0u);
    EXPECT_EQ(dropoutFactor(dropoutThreshold(0.5)), 2);
    EXPECT_EQ(dropoutFactor(1ull << 32), 0);
    for (uint32_t j = 0; j < 1000; ++j) {
        EXPECT_EQ(vkattnDropoutKeeps(0, 1, 2, 3, 4, j), 1u);
        EXPECT_EQ(vkattnDropoutKeeps(1, 1, 2, 3, 4, j), 0u);
    }
    EXPECT_EQ(vkattnDropoutKeeps(-0.5, 1, 2, 3, 4, 5), 0u);
    EXPECT_EQ(vkattnDropoutKeeps(1.5, 1, 2, 3, 4, 5), 0u);
    EXPECT_EQ(vkattnDropoutKeeps(std::nan(""), 1, 2, 3, 4, 5), 0u);
}

// Of 40,000 draws each: within 4 standard deviations. Neighbours in every direction agree as often as
// independent draws do.
TEST(Dropout, sharesAndNeighbours) {
    constexpr uint32_t rows = 200, columns = 200;
    constexpr double count = double{rows} * columns;
    const auto within = [](double share, double expected, const char *what) {
        EXPECT_NEAR(share, expected, 4 * std::sqrt(expected * (1 - expected) / count)) << what;
    };
    for (const double p : {0.1, 0.5, 0.9}) {
        double kept = 0, row = 0, column = 0, head = 0, offset = 0, seed = 0;
        for (uint32_t i = 0; i < rows; ++i)
            for (uint32_t j = 0; j < columns; ++j) {
                const uint32_t here = vkattnDropoutKeeps(p, 9, 1, 2, i, j);
                kept += here;
                row += here == vkattnDropoutKeeps(p, 9, 1, 2, i + 1, j);
                column += here == vkattnDropoutKeeps(p, 9, 1, 2, i, j + 1);
                head += here == vkattnDropoutKeeps(p, 9, 1, 3, i, j);
                offset += here == vkattnDropoutKeeps(p, 9, 2, 2, i, j);
                seed += here == vkattnDropoutKeeps(p, 10, 1, 2, i, j);
            }
        const double same = p * p + (1 - p) * (1 - p);
        within(kept / count, 1 - p, "kept");
        within(row / count, same, "row");
        within(column / count, same, "column");
        within(head / count, same, "head");
        within(offset / count, same, "offset");
        within(seed / count, same, "seed");
    }
}

// A problem in float arrays on the CPU.
struct Attention {
    vkattn_problem p{};
    std::vector<float> q, k, v, out, lse, weights, slopes, sinks;

    Attention(uint32_t batch, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys, uint32_t dim, uint32_t valueDim) {
        p.structSize = sizeof p;
        const auto make = [](std::vector<float> &data, uint32_t b, uint32_t h, uint32_t t, uint32_t d) {
            data.assign(size_t{b} * h * t * d, 0.0f);
            return packed(VKATTN_F32, b, h, t, d);
        };
        p.q = make(q, batch, heads, queries, dim);
        p.k = make(k, batch, kvHeads, keys, dim);
        p.v = make(v, batch, kvHeads, keys, valueDim);
        p.out = make(out, batch, heads, queries, valueDim);
        p.lse = make(lse, batch, heads, queries, 1);
        p.weights = make(weights, batch, heads, queries, keys);
    }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands() {
        std::vector<vkattn_operand_memory> all;
        const auto add = [&](vkattn_role role, std::vector<float> &data, bool present) {
            if (present) all.push_back({role, data.data(), data.size() * 4});
        };
        add(VKATTN_Q, q, true), add(VKATTN_K, k, true), add(VKATTN_V, v, true), add(VKATTN_OUT, out, true);
        add(VKATTN_LSE, lse, p.lse.extent[0] != 0), add(VKATTN_WEIGHTS, weights, p.weights.extent[0] != 0);
        add(VKATTN_ALIBI_SLOPES, slopes, !slopes.empty()), add(VKATTN_SINKS, sinks, !sinks.empty());
        return all;
    }
    void run(bool oracle) {
        const auto memory = operands();
        const auto count = static_cast<uint32_t>(memory.size());
        vkattn_diagnostic why{};
        ASSERT_EQ(oracle ? vkattnCpuOracle(&p, memory.data(), count, &why) : vkattnCpuRun(&p, memory.data(), count, 2, &why), VKATTN_OK)
            << why.message;
    }
};

void expectNear(const std::vector<float> &got, std::initializer_list<double> expected, const char *what) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t n = 0; n < got.size(); ++n) EXPECT_NEAR(got[n], expected.begin()[n], 2e-6) << what << " " << n;
}

// Numbers that another program computed from the formulas.
TEST(Dropout, goldenOutputs) {
    for (const bool oracle : {true, false}) {
        Attention a(1, 2, 1, 2, 3, 2, 2);
        const auto fill = [](std::vector<float> &data, int start) {
            for (size_t n = 0; n < data.size(); ++n)
                data[n] = static_cast<float>((37 * (start + static_cast<int>(n)) + 11) % 29 - 14) / 10.0f;
        };
        fill(a.q, 0), fill(a.k, 100), fill(a.v, 200);
        a.p.flags = VKATTN_CAUSAL | VKATTN_SCALE;
        a.p.scale = 0.5f, a.p.softcap = 1.5f;
        a.slopes = {0.25f, -0.5f}, a.sinks = {0.3f, -1.0f};
        a.p.presentRoles = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES) | VKATTN_PRESENT(VKATTN_SINKS);
        a.p.dropout = 0.5, a.p.dropoutSeed = 42, a.p.dropoutOffset = 7;
        ASSERT_NO_FATAL_FAILURE(a.run(oracle));
        expectNear(a.out, {0, 0, 0.2934372, 1.1433636, 0, 0, 0.4252872, 1.1057468}, "out");
        expectNear(a.lse, {1.1366070, 1.4160793, 1.1123959, 1.6462315}, "lse");
    }
}

// V has ones on its diagonal: the output is the weights after dropout.
void readWeights(Attention &a) {
    for (size_t n = 0; n < a.q.size(); ++n) a.q[n] = 0.1f * static_cast<float>(n % 7) - 0.3f;
    for (size_t n = 0; n < a.k.size(); ++n) a.k[n] = 0.1f * static_cast<float>(n % 5) - 0.2f;
    const uint32_t dim = a.p.v.extent[3];
    for (size_t n = 0; n < a.v.size(); ++n) a.v[n] = n / dim % a.p.v.extent[2] == n % dim;
}

TEST(Dropout, theOutputHasTheKeptPairs) {
    for (const bool oracle : {true, false})
        for (const uint32_t queries : {1u, 37u}) {
            Attention a(2, 4, 2, queries, 45, 8, 45);
            readWeights(a);
            a.p.dropout = 0.3, a.p.dropoutSeed = 0x123456789abcull, a.p.dropoutOffset = 3;
            a.p.flags = VKATTN_WEIGHTS_DROPPED;
            ASSERT_NO_FATAL_FAILURE(a.run(oracle));
            const std::vector<float> after = a.weights;
            a.p.flags = 0;
            ASSERT_NO_FATAL_FAILURE(a.run(oracle));
            const double factor = dropoutFactor(dropoutThreshold(0.3));
            for (size_t n = 0; n < a.out.size(); ++n) {
                const auto j = static_cast<uint32_t>(n % 45), i = static_cast<uint32_t>(n / 45 % queries);
                const bool kept = vkattnDropoutKeeps(0.3, 0x123456789abcull, 3, static_cast<uint32_t>(n / 45 / queries), i, j);
                ASSERT_GT(a.weights[n], 0) << "before dropout";
                ASSERT_NEAR(a.out[n], kept ? factor * static_cast<double>(a.weights[n]) : 0, 1e-6) << n << (oracle ? " oracle" : "");
                ASSERT_EQ(a.out[n] != 0, kept) << n;
                ASSERT_NEAR(after[n], a.out[n], 1e-6);
                ASSERT_EQ(after[n] != 0, kept) << n;
            }
        }
}

TEST(Dropout, zeroIsNoneAndOneIsNothing) {
    for (const uint32_t queries : {1u, 37u}) {
        Attention a(2, 4, 2, queries, 45, 8, 45);
        readWeights(a);
        ASSERT_NO_FATAL_FAILURE(a.run(false));
        const std::vector<float> out = a.out, lse = a.lse;
        a.p.dropout = 0x1p-34, a.p.dropoutSeed = 9; // rounds to a threshold of 0
        ASSERT_NO_FATAL_FAILURE(a.run(false));
        EXPECT_EQ(std::memcmp(out.data(), a.out.data(), out.size() * 4), 0);
        a.p.dropout = 1;
        a.v.assign(a.v.size(), std::numeric_limits<float>::quiet_NaN()); // all of it unread
        a.p.flags = VKATTN_WEIGHTS_DROPPED;
        for (const bool oracle : {true, false}) {
            ASSERT_NO_FATAL_FAILURE(a.run(oracle));
            for (const float x : a.out) ASSERT_EQ(x, 0);
            for (const float x : a.weights) ASSERT_EQ(x, 0);
            for (size_t n = 0; n < lse.size(); ++n) ASSERT_NEAR(lse[n], a.lse[n], 1e-5);
        }
        // A row that is NaN drops nothing.
        a.q[0] = std::numeric_limits<float>::quiet_NaN();
        for (const bool oracle : {true, false}) {
            ASSERT_NO_FATAL_FAILURE(a.run(oracle));
            for (uint32_t d = 0; d < 45; ++d) ASSERT_TRUE(std::isnan(a.out[d])) << d;
            for (uint32_t j = 0; j < 45; ++j) ASSERT_TRUE(std::isnan(a.weights[j])) << j;
            for (size_t n = 45; n < a.out.size(); ++n) ASSERT_EQ(a.out[n], 0);
        }
    }
}

// NaN and infinity in V where dropout drops the pair, and where it keeps it.
TEST(Dropout, droppedValuesAreUnread) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (const bool oracle : {true, false}) {
            Attention a(1, 2, 2, 37, 45, 8, 5);
            readWeights(a);
            a.p.dropout = 0.5, a.p.dropoutSeed = 77;
            ASSERT_NO_FATAL_FAILURE(a.run(oracle));
            const std::vector<float> clean = a.out;
            constexpr uint32_t key = 21;
            for (uint32_t d = 0; d < 5; ++d) a.v[key * 5 + d] = bad; // of head 0
            ASSERT_NO_FATAL_FAILURE(a.run(oracle));
            for (uint32_t i = 0; i < 37; ++i)
                for (uint32_t d = 0; d < 5; ++d) {
                    if (vkattnDropoutKeeps(0.5, 77, 0, 0, i, key))
                        EXPECT_FALSE(std::isfinite(a.out[i * 5 + d])) << i;
                    else
                        EXPECT_EQ(a.out[i * 5 + d], clean[i * 5 + d]) << i;
                }
        }
}

// The mean over many offsets is the output without dropout, within 4 of its own standard errors.
TEST(Dropout, theMeanIsTheOutputWithoutDropout) {
    Attention a(1, 1, 1, 3, 40, 4, 2);
    readWeights(a);
    for (size_t n = 0; n < a.v.size(); ++n) a.v[n] = std::sin(static_cast<float>(n));
    ASSERT_NO_FATAL_FAILURE(a.run(true));
    const std::vector<float> expected = a.out;
    a.p.dropout = 0.3, a.p.dropoutSeed = 4;
    constexpr uint32_t offsets = 1000;
    std::vector<double> sums(expected.size()), squares(expected.size());
    for (uint32_t offset = 0; offset < offsets; ++offset) {
        a.p.dropoutOffset = offset;
        ASSERT_NO_FATAL_FAILURE(a.run(false));
        for (size_t n = 0; n < sums.size(); ++n) {
            sums[n] += static_cast<double>(a.out[n]);
            squares[n] += static_cast<double>(a.out[n]) * static_cast<double>(a.out[n]);
        }
    }
    for (size_t n = 0; n < sums.size(); ++n) {
        const double mean = sums[n] / offsets, error = std::sqrt((squares[n] / offsets - mean * mean) / offsets);
        EXPECT_GT(error, 1e-4) << "nothing was dropped";
        EXPECT_NEAR(mean, static_cast<double>(expected[n]), 4 * error);
    }
}

} // namespace
