// Merge, append into rings and pages, and the Hadamard matrix, on the CPU, against what their formulas say of numbers chosen by hand.
#include "unit/cpu/cpu_runs.hpp"
#include "vkattn/vkattn.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <tuple>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), notANumber = std::numeric_limits<float>::quiet_NaN();

// Three parts of 2 heads, 5 rows and 7 dims, with ordinary log-sum-exps.
OperationCase threeParts() {
    OperationCase c = plainMerge(3, 2, 5, 7);
    Random random = randomFor("three parts");
    c.fill(random);
    for (uint32_t t = 0; t < 3; ++t)
        for (uint32_t h = 0; h < 2; ++h)
            for (uint32_t r = 0; r < 5; ++r) {
                c.tensor(VKATTN_X_LSE).set(t, h, r, 0, static_cast<float>(t) - 0.5f * static_cast<float>(r));
                for (uint32_t d = 0; d < 7; ++d) c.tensor(VKATTN_X).set(t, h, r, d, static_cast<float>(100 * t + 10 * r + d + h));
            }
    return c;
}

// Computes by the kernels and by the oracle, of which both must pass.
OperationCase merged(const OperationCase &before) {
    OperationCase after = before, truth = before, input = before;
    run(after, 2);
    EXPECT_TRUE(verified(after, input).passed);
    runOracle(truth);
    EXPECT_TRUE(verified(truth, input).passed);
    return after;
}

} // namespace

TEST(Merge, isTheWeightedMeanOfTheParts) {
    OperationCase c = merged(threeParts());
    const double weights[] = {std::exp(-2.0), std::exp(-1.0), 1.0}, sum = weights[0] + weights[1] + weights[2];
    for (uint32_t r = 0; r < 5; ++r) {
        EXPECT_NEAR(c.tensor(VKATTN_LSE).get(0, 1, r, 0), 2 - 0.5 * r + std::log(sum), 1e-6);
        for (uint32_t d = 0; d < 7; ++d)
            EXPECT_NEAR(c.tensor(VKATTN_Y).get(0, 1, r, d), (100 * weights[1] + 200 * weights[2]) / sum + 10 * r + d + 1, 1e-4);
    }
}

TEST(Merge, ignoresPartsThatSawNothing) {
    OperationCase c = threeParts(), clean = threeParts();
    for (const uint32_t t : {0u, 2u}) {
        for (OperationCase *const each : {&c, &clean}) each->tensor(VKATTN_X_LSE).set(t, 0, 3, 0, -infinity);
        for (uint32_t d = 0; d < 7; ++d) c.tensor(VKATTN_X).set(t, 0, 3, d, d % 2 ? notANumber : infinity);
    }
    c = merged(c), clean = merged(clean);
    for (uint32_t d = 0; d < 7; ++d) {
        EXPECT_EQ(c.tensor(VKATTN_Y).get(0, 0, 3, d), clean.tensor(VKATTN_Y).get(0, 0, 3, d));
        EXPECT_EQ(c.tensor(VKATTN_Y).get(0, 0, 3, d), static_cast<float>(130 + d)); // the part that is left
    }
    EXPECT_EQ(c.tensor(VKATTN_LSE).get(0, 0, 3, 0), 1 - 1.5f);
}

TEST(Merge, isZeroWhereNoPartSawAnything) {
    OperationCase c = threeParts();
    for (uint32_t t = 0; t < 3; ++t) {
        c.tensor(VKATTN_X_LSE).set(t, 1, 4, 0, -infinity);
        for (uint32_t d = 0; d < 7; ++d) c.tensor(VKATTN_X).set(t, 1, 4, d, notANumber);
    }
    c = merged(c);
    for (uint32_t d = 0; d < 7; ++d) EXPECT_EQ(c.tensor(VKATTN_Y).get(0, 1, 4, d), 0.0f);
    EXPECT_EQ(c.tensor(VKATTN_LSE).get(0, 1, 4, 0), -infinity);
}

TEST(Merge, keepsNanInItsRow) {
    OperationCase clean = threeParts();
    run(clean, 1);
    for (const float bad : {notANumber, infinity})
        for (const bool ofLse : {false, true}) {
            OperationCase c = threeParts();
            if (ofLse)
                c.tensor(VKATTN_X_LSE).set(1, 0, 2, 0, bad);
            else
                c.tensor(VKATTN_X).set(1, 0, 2, 6, bad);
            c = merged(c);
            for (uint32_t h = 0; h < 2; ++h)
                for (uint32_t r = 0; r < 5; ++r) {
                    const bool hit = h == 0 && r == 2;
                    if (hit && ofLse)
                        EXPECT_TRUE(std::isnan(c.tensor(VKATTN_LSE).get(0, h, r, 0)));
                    else
                        EXPECT_EQ(c.tensor(VKATTN_LSE).get(0, h, r, 0), clean.tensor(VKATTN_LSE).get(0, h, r, 0));
                    for (uint32_t d = 0; d < 7; ++d) {
                        const float got = c.tensor(VKATTN_Y).get(0, h, r, d);
                        if (hit && ofLse)
                            EXPECT_TRUE(std::isnan(got));
                        else if (hit && d == 6)
                            EXPECT_FALSE(std::isfinite(got));
                        else
                            EXPECT_EQ(got, clean.tensor(VKATTN_Y).get(0, h, r, d));
                    }
                }
        }
}

// The sum of such parts is no f32, and exp of such log-sum-exps is none.
TEST(Merge, ofLargeNumbersIsFinite) {
    OperationCase c = plainMerge(200, 1, 1, 9);
    Random random = randomFor("large parts");
    c.fill(random);
    for (uint32_t t = 0; t < 200; ++t) {
        c.tensor(VKATTN_X_LSE).set(t, 0, 0, 0, 3e38f);
        for (uint32_t d = 0; d < 9; ++d) c.tensor(VKATTN_X).set(t, 0, 0, d, 3e38f);
    }
    c = merged(c);
    for (uint32_t d = 0; d < 9; ++d) EXPECT_NEAR(c.tensor(VKATTN_Y).get(0, 0, 0, d) / 3e38f, 1.0f, 1e-5f);
    EXPECT_EQ(c.tensor(VKATTN_LSE).get(0, 0, 0, 0), 3e38f);
}

// Attention over all keys is the merge of attention over parts of them, whatever the parts: some see nothing.
TEST(Merge, ofPartsOfAttentionIsTheWhole) {
    Random random = randomFor("parts of attention");
    constexpr uint32_t queries = 6, keys = 40, dims = 8;
    std::normal_distribution<float> normal;
    const auto drawn = [&](size_t count) {
        std::vector<float> values(count);
        for (float &each : values) each = normal(random);
        return values;
    };
    std::vector<float> q = drawn(queries * dims), k = drawn(keys * dims), v = drawn(keys * dims);
    std::vector<float> whole(queries * dims), wholeLse(queries);
    const auto attend = [&](uint32_t first, uint32_t count, float *out, float *lse) {
        vkattn_problem p = problem(matrix(VKATTN_F32, queries, dims), matrix(VKATTN_F32, count, dims), matrix(VKATTN_F32, count, dims),
                                   matrix(VKATTN_F32, queries, dims));
        p.lse = matrix(VKATTN_F32, queries, 1);
        const vkattn_operand_memory memory[] = {{VKATTN_Q, q.data(), 4 * q.size()},
                                                {VKATTN_K, k.data() + first * dims, 4ull * count * dims},
                                                {VKATTN_V, v.data() + first * dims, 4ull * count * dims},
                                                {VKATTN_OUT, out, 4 * queries * dims},
                                                {VKATTN_LSE, lse, 4 * queries}};
        ASSERT_EQ(vkattnCpuRun(&p, memory, 5, 1, nullptr), VKATTN_OK);
    };
    attend(0, keys, whole.data(), wholeLse.data());
    for (uint32_t parts = 1; parts <= 8; ++parts) {
        std::vector<uint32_t> ends;
        for (uint32_t t = 1; t < parts; ++t) ends.push_back(between(random, 0, keys));
        ends.push_back(keys);
        std::sort(ends.begin(), ends.end());
        std::vector<float> out(parts * queries * dims), lse(parts * queries);
        uint32_t first = 0;
        for (uint32_t t = 0; t < parts; ++t) {
            attend(first, ends[t] - first, out.data() + t * queries * dims, lse.data() + t * queries);
            first = ends[t];
        }
        // Onto the first part.
        vkattn_merge m = merge(parts, packed(VKATTN_F32, parts, 1, queries, dims), packed(VKATTN_F32, parts, 1, queries, 1),
                               matrix(VKATTN_F32, queries, dims));
        m.lse = matrix(VKATTN_F32, queries, 1);
        runOnCpu(operation(m),
                 {{VKATTN_X, out.data(), 4 * out.size()},
                  {VKATTN_X_LSE, lse.data(), 4 * lse.size()},
                  {VKATTN_Y, out.data(), 4 * queries * dims},
                  {VKATTN_LSE, lse.data(), 4 * queries}},
                 2, "parts of attention");
        for (uint32_t n = 0; n < queries * dims; ++n) EXPECT_NEAR(out[n], whole[n], 2e-6) << parts << " parts";
        for (uint32_t n = 0; n < queries; ++n) EXPECT_NEAR(lse[n], wholeLse[n], 2e-6) << parts << " parts";
    }
}

TEST(Merge, theVerifierSeesAWrongPart) {
    OperationCase before = threeParts(), after = before;
    run(after, 1);
    EXPECT_TRUE(verified(after, before).passed);
    OperationCase wrong = after;
    wrong.tensor(VKATTN_LSE).set(0, 1, 2, 0, wrong.tensor(VKATTN_LSE).get(0, 1, 2, 0) + 1e-4f);
    EXPECT_FALSE(verified(wrong, before).passed);
    wrong = after;
    wrong.tensor(VKATTN_Y).set(0, 1, 4, 6, wrong.tensor(VKATTN_Y).get(0, 1, 4, 6) * 1.0001f);
    const vkattn_verify_report report = verified(wrong, before);
    EXPECT_FALSE(report.passed);
    EXPECT_EQ(report.worstRole, VKATTN_Y);
    EXPECT_EQ(report.worstIndex[2], 4u);
}

namespace {

// Appends tokens whose element is 1000 b + 10 t + d, and returns [entry][token]: the tokens that are there afterwards, by
// batch entry and token, and -1 where the cache is as it was.
std::vector<std::vector<int>> appended(OperationCase c) {
    Random random = randomFor("appended");
    c.fill(random);
    const vkattn_layout x = c.append.x, y = c.append.y;
    for (uint32_t b = 0; b < x.extent[0]; ++b)
        for (uint32_t t = 0; t < x.extent[2]; ++t)
            for (uint32_t d = 0; d < x.extent[3]; ++d) c.tensor(VKATTN_X).set(b, 0, t, d, static_cast<float>(1000 * b + 10 * t + d));
    OperationCase after = c, truth = c;
    run(after, 2);
    EXPECT_EQ(judge(after, c).wrong, "");
    runOracle(truth);
    EXPECT_EQ(judge(truth, c).wrong, "");
    std::vector<std::vector<int>> tokens(y.extent[0], std::vector<int>(y.extent[2], -1));
    for (uint32_t e = 0; e < y.extent[0]; ++e)
        for (uint32_t r = 0; r < y.extent[2]; ++r) {
            const float got = after.tensor(VKATTN_Y).get(e, 0, r, 0);
            const auto same = [&](uint32_t d) { return after.tensor(VKATTN_Y).get(e, 0, r, d) == got + static_cast<float>(d); };
            if (got == std::floor(got) && same(1) && same(2)) tokens[e][r] = static_cast<int>(got);
        }
    return tokens;
}

OperationCase ring(uint32_t tokens, std::vector<uint32_t> starts) {
    OperationCase c = plainAppend(tokens, 5, 3);
    c.append.x = packed(VKATTN_F32, 2, 1, tokens, 3), c.append.y = packed(VKATTN_F32, 2, 1, 5, 3);
    c.append.flags = VKATTN_APPEND_RING;
    c.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    c.starts = std::move(starts);
    return c;
}

using Tokens = std::vector<std::vector<int>>;

} // namespace

TEST(Append, goesRoundARing) {
    EXPECT_EQ(appended(ring(3, {4, 13})), (Tokens{{10, 20, -1, -1, 0}, {1020, -1, -1, 1000, 1010}}));
    // As i32 these starts are negative.
    EXPECT_EQ(appended(ring(3, {0xffffffff, 0x80000000})), (Tokens(2, std::vector<int>(5, -1))));
    EXPECT_EQ(appended(ring(1, {0x7fffffff, 0})), (Tokens{{-1, -1, 0, -1, -1}, {1000, -1, -1, -1, -1}})); // 2^31 - 1 = 2 modulo 5
    // Of seven tokens the last five stay.
    EXPECT_EQ(appended(ring(7, {0, 3})), (Tokens{{50, 60, 20, 30, 40}, {1020, 1030, 1040, 1050, 1060}}));
}

TEST(Append, goesToThePagesOfTheTable) {
    OperationCase c = plainAppend(5, 1, 3);
    c.append = appendToPages(packed(VKATTN_F32, 2, 1, 5, 3), packed(VKATTN_F32, 4, 1, 2, 3), 3);
    c.append.presentRoles |= VKATTN_PRESENT(VKATTN_STARTS);
    c.starts = {1, 3};
    c.pageTable = {2, 0xffffffff, 0, 1, 3, 4}; // a page that is absent, and one that the pool lacks
    EXPECT_EQ(appended(c), (Tokens{{30, 40}, {-1, -1}, {-1, 0}, {-1, 1000}}));
    c.append.flags = VKATTN_APPEND_RING; // of six tokens
    c.starts = {4, 0xfffffffe};
    EXPECT_EQ(appended(c), (Tokens{{0, 10}, {-1, -1}, {20, 30}, {-1, -1}}));
    c.append.flags = 0;
    c.append.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE), c.append.start = 4;
    c.starts.clear();
    EXPECT_EQ(appended(c), (Tokens{{0, 10}, {-1, -1}, {-1, -1}, {-1, -1}}));
}

// A table may name a page twice: nothing else is touched, and the verifier accepts either token.
TEST(Append, toOnePageTwiceIsOneOfBoth) {
    OperationCase c = plainAppend(4, 1, 3);
    c.append = appendToPages(packed(VKATTN_F32, 1, 1, 4, 3), packed(VKATTN_F32, 2, 1, 2, 3), 2);
    c.pageTable = {1, 1};
    const Tokens tokens = appended(c);
    EXPECT_EQ(tokens[0], (std::vector<int>{-1, -1}));
    EXPECT_TRUE(tokens[1][0] == 0 || tokens[1][0] == 20) << tokens[1][0];
    EXPECT_TRUE(tokens[1][1] == 10 || tokens[1][1] == 30) << tokens[1][1];
}

// The first rows of the matrix of four, by hand.
TEST(Hadamard, isSylvestersMatrix) {
    OperationCase c = plainHadamard(1, 1, 12);
    Random random(1);
    c.fill(random);
    for (uint32_t d = 0; d < 12; ++d) c.tensor(VKATTN_X).set(0, 0, 0, d, static_cast<float>(d * d));
    run(c, 1);
    for (uint32_t n = 0; n < 12; n += 4) {
        const auto x = [&](uint32_t d) { return static_cast<float>((n + d) * (n + d)); };
        const float expected[] = {(x(0) + x(1) + x(2) + x(3)) / 2, (x(0) - x(1) + x(2) - x(3)) / 2, (x(0) + x(1) - x(2) - x(3)) / 2,
                                  (x(0) - x(1) - x(2) + x(3)) / 2};
        for (uint32_t d = 0; d < 4; ++d) EXPECT_EQ(c.tensor(VKATTN_Y).get(0, 0, 0, n + d), expected[d]) << n + d;
    }
}

// Twice is not at all, whatever the block, and lengths stay.
TEST(Hadamard, isItsOwnInverse) {
    Random random = randomFor("hadamard");
    for (const uint32_t block : {2u, 8u, 64u, 1024u}) {
        OperationCase c = plainHadamard(2, 3, 2048);
        c.hadamard.block = block;
        c.inPlace[VKATTN_Y] = VKATTN_X;
        c.fill(random);
        const HostTensor before = c.tensor(VKATTN_X);
        double length = 0, rotated = 0;
        run(c, 1);
        for (uint32_t d = 0; d < 2048; ++d)
            length += std::pow(static_cast<double>(before.get(0, 1, 2, d)), 2),
                rotated += std::pow(static_cast<double>(c.output(VKATTN_Y).get(0, 1, 2, d)), 2);
        EXPECT_NEAR(rotated / length, 1, 1e-5) << block;
        EXPECT_GT(std::abs(c.output(VKATTN_Y).get(0, 1, 2, 0) - before.get(0, 1, 2, 0)), 0) << block;
        run(c, 1);
        for (uint32_t d = 0; d < 2048; ++d) EXPECT_NEAR(c.output(VKATTN_Y).get(0, 1, 2, d), before.get(0, 1, 2, d), 1e-5) << block;
    }
}

// Rows of N(0, 1) in which one dim is 40 times as large, as keys of language models have them, in q4_0: what the others are
// off by, of their own size. The outlier makes the scale of its block 40 times as coarse.
TEST(Hadamard, spreadsOutliersSoThatSmallTypesHoldTheRest) {
    constexpr uint32_t dims = 128, rows = 20, outlier = 37;
    Random random = randomFor("outliers");
    OperationCase c = plainHadamard(1, rows, dims);
    c.inPlace[VKATTN_Y] = VKATTN_X;
    c.fill(random);
    HostTensor &x = c.tensor(VKATTN_X);
    for (uint32_t r = 0; r < rows; ++r) x.set(0, 0, r, outlier, 40 * x.get(0, 0, r, outlier));
    const HostTensor before = x;
    const auto inSmallType = [&](HostTensor &tensor) {
        for (uint32_t r = 0; r < rows; ++r) {
            std::vector<float> row(dims);
            for (uint32_t d = 0; d < dims; ++d) row[d] = tensor.get(0, 0, r, d);
            std::vector<unsigned char> small(static_cast<size_t>(rowBytes(VKATTN_Q4_0, dims)));
            ASSERT_EQ(vkattnConvert(VKATTN_F32, row.data(), VKATTN_Q4_0, small.data(), dims, nullptr), VKATTN_OK);
            ASSERT_EQ(vkattnConvert(VKATTN_Q4_0, small.data(), VKATTN_F32, row.data(), dims, nullptr), VKATTN_OK);
            for (uint32_t d = 0; d < dims; ++d) tensor.set(0, 0, r, d, row[d]);
        }
    };
    const auto errorOf = [&](const HostTensor &tensor) {
        double errors = 0, sizes = 0;
        for (uint32_t r = 0; r < rows; ++r)
            for (uint32_t d = outlier / 32 * 32; d < outlier / 32 * 32 + 32; ++d) {
                if (d == outlier) continue;
                const auto value = static_cast<double>(before.get(0, 0, r, d));
                errors += std::pow(static_cast<double>(tensor.get(0, 0, r, d)) - value, 2), sizes += value * value;
            }
        return std::sqrt(errors / sizes);
    };
    HostTensor plain = before;
    inSmallType(plain);
    run(c, 1);
    inSmallType(x);
    run(c, 1);
    EXPECT_LT(errorOf(x), 0.75 * errorOf(plain));
    std::printf("q4_0 of rows with an outlier: the rest of its block is off by %.2f, rotated by %.2f\n", errorOf(plain), errorOf(x));
}
