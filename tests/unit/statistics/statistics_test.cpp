// Drawn statistics on the CPU: the vector kernels against the oracle, the oracle against src/analysis, and
// the verifier against planted errors.
#include "cpu/targets.hpp"

#include "analysis/measures.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "cpu/statistics/work.hpp"
#include "small_head.hpp"
#include "support/extent.hpp"
#include "unit/cpu/cpu_runs.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// All outputs, or some of them.
StatisticsOptions drawOutputs(Random &random, bool everything) {
    StatisticsOptions o = drawStatisticsOptions(random);
    if (!everything) return o;
    o.columns = o.received = true;
    o.top = between(random, 1, VKATTN_MAX_TOP_KEYS);
    o.densityThreshold = between(random, 0, 1) ? 0.05f : 1e-4f;
    return o;
}
// All outputs of operands whose numbers are finite.
StatisticsOptions drawFinite(Random &random) {
    StatisticsOptions o = drawOutputs(random, true);
    o.spoils = false;
    return o;
}

// Options, and now and then sizes at the edge.
Case drawCase(Random &random, int n) {
    Case c = randomCase(random, between(random, 0, 8));
    if (n % 12 == 5) c.queryTokens = 70, c.keyTokens = 300;
    if (n % 12 == 7 && !c.ragged) c.queryTokens = 1;
    if (n % 12 == 11) { // blocks of keys
        c.queryTokens = 35, c.keyTokens = statisticsOneBlockKeys + 60;
        if (c.window && n % 24 == 11) c.left = static_cast<int32_t>(statisticsBlockKeys) + 200;
        if (c.data == Data::needle) c.needle = between(random, 0, c.keyTokens - 1);
    }
    return c;
}

void expectRight(StatisticsCase &drawn, int n) {
    StatisticsCase one = drawn, exact = drawn;
    run(one, static_cast<uint32_t>(n % 2));
    EXPECT_EQ(one.wrong(drawn), "") << n << " " << one.text();
    for (uint32_t threads = 2; threads <= 4; ++threads) {
        StatisticsCase more = drawn;
        run(more, threads);
        EXPECT_TRUE(one.sameOutputs(more)) << threads << " threads: " << one.text();
    }
    runOracle(exact);
    EXPECT_EQ(exact.wrong(drawn), "") << "oracle: " << exact.text();
}

// An element that the call writes.
Element drawElement(const StatisticsCase &c, Random &random) {
    return test::drawElement(
        random, {std::begin(statisticsRoles), std::end(statisticsRoles)},
        [&](vkattn_role role) { return c.tensors.at(role).layout.extent; },
        [&](const Element &e) { return e.role == VKATTN_RECEIVED ? c.data->isKey(e.at[0], e.at[2]) : c.data->isQuery(e.at[0], e.at[2]); });
}

} // namespace

// Each of the processor's instruction sets.
class StatisticsKernelsOf : public ::testing::TestWithParam<int64_t> {
  protected:
    void SetUp() override {
        hwy::SetSupportedTargetsForTest(GetParam());
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        ASSERT_STREQ(statisticsKernels().target, hwy::TargetName(GetParam()));
    }
    void TearDown() override {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
};

TEST_P(StatisticsKernelsOf, areWithinTheirBoundsAndHaveTheSameBitsForAnyNumberOfThreads) {
    Random random = randomFor("statistics fast");
    // A third by default: every set of instructions draws the same.
    for (int n = 0; n < (fullExtent() ? 120 : 40); ++n) {
        StatisticsCase drawn = drawStatistics(random, drawCase(random, n), drawOutputs(random, n % 3 == 0));
        expectRight(drawn, n);
        if (::testing::Test::HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, StatisticsKernelsOf, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto &target) { return std::string(hwy::TargetName(target.param)); });

// The acceptance of docs/numerics.md: 1% of K and V, and two numbers a row.
TEST(Statistics, needLittleWorkspaceHoweverManyKeys) {
    const auto bytesOf = [](uint32_t tokens, uint32_t threads) {
        vkattn_problem p = problem(packed(VKATTN_F32, 1, 1, tokens, 64), packed(VKATTN_F32, 1, 1, tokens, 64), {}, {});
        vkattn_attention_statistics s = attentionStatistics(p);
        s.statistics = packed(VKATTN_F32, 1, 1, tokens, VKATTN_STATISTIC_COUNT);
        s.received = packed(VKATTN_F32, 1, 1, tokens, 1);
        s.topWeights = packed(VKATTN_F32, 1, 1, tokens, VKATTN_MAX_TOP_KEYS);
        s.topKeys = packed(VKATTN_BITS32, 1, 1, tokens, VKATTN_MAX_TOP_KEYS);
        s.densityThreshold = 0.1f;
        const vkattn_operation o = operation(s);
        vkattn_cpu_pool pool = nullptr;
        uint64_t bytes = 0;
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnCpuCreatePool(threads, &pool, &why), VKATTN_OK) << why.message;
        EXPECT_EQ(vkattnCpuOperationWorkspace(&o, pool, &bytes, &why), VKATTN_OK) << why.message;
        vkattnCpuDestroyPool(pool);
        return bytes;
    };
    constexpr uint32_t tokens = 65536;
    constexpr uint64_t keysAndValues = 2ull * tokens * 64 * 4, limit = keysAndValues / 100 + 8ull * tokens;
    for (const uint32_t threads : {1u, 2u, 4u}) EXPECT_LE(bytesOf(tokens, threads), limit) << threads << " threads";
    // A word for each block of keys, whatever the threads.
    for (const uint32_t threads : {1u, 2u, 16u})
        EXPECT_EQ(bytesOf(4 * tokens, threads) - bytesOf(tokens, threads), 4ull * (3 * tokens / statisticsBlockKeys))
            << threads << " threads";
}

TEST(Statistics, areRightForEveryOptionAlone) {
    Random random = randomFor("statistics matrix");
    int n = 0;
    for (const Case &c : caseMatrix(random, false)) {
        if (c.name.find('_') != std::string::npos) continue; // pairs of options
        StatisticsCase drawn = drawStatistics(random, c, drawFinite(random));
        expectRight(drawn, n++);
        if (::testing::Test::HasFailure()) {
            ADD_FAILURE() << c.name;
            return;
        }
    }
    EXPECT_GT(n, 40);
}

TEST(Statistics, passWithLargeNumbersAndOverflow) {
    Random random = randomFor("statistics large");
    for (int n = 0; n < 120; ++n) {
        Case c = drawLargeNumbers(random, n);
        if (n % 5 == 4) c.scale = 1e36f; // scores beyond fp32
        StatisticsCase drawn = drawStatistics(random, c, drawFinite(random));
        expectRight(drawn, n);
        if (::testing::Test::HasFailure()) return;
    }
}

TEST(Statistics, aNanOfARowReachesTheRowAndTheKeysThatItSees) {
    Random random = randomFor("statistics nan");
    int seenRows = 0;
    for (int n = 0; n < 80; ++n) {
        Case c = drawCase(random, n);
        if (c.data == Data::extreme) c.data = Data::normal;
        c.sharedHeads = false;
        const StatisticsCase drawn = drawStatistics(random, c, drawFinite(random));
        StatisticsCase clean = drawn, spoiled = drawn;
        const uint32_t b = between(random, 0, c.batch - 1), h = between(random, 0, c.heads - 1);
        const conform::Span &s = drawn.data->spans[b];
        if (s.queries == 0) continue;
        const uint32_t i = between(random, 0, s.queries - 1), token = s.firstQuery + i;
        const std::vector<unsigned char> keys = drawn.data->visibleKeys(b, h, i);
        const bool seen = std::count(keys.begin(), keys.end(), 1) != 0;
        seenRows += seen ? 1 : 0;
        spoiled.data->q.set(s.batch, h, token, 0, n % 2 ? notANumber : std::numeric_limits<float>::infinity());
        if (n % 2 == 0) { // infinity * 0 and both signs: NaN, +infinity and -infinity are among the scores
            const StatisticsCase before = spoiled;
            run(spoiled, 2);
            EXPECT_EQ(spoiled.wrong(before), "") << spoiled.text();
            continue;
        }
        for (StatisticsCase *each : {&clean, &spoiled}) n % 4 == 1 ? run(*each, 2) : runOracle(*each);
        for (const vkattn_role role : statisticsRoles) {
            const HostTensor &was = clean.tensors.at(role), &is = spoiled.tensors.at(role);
            const uint32_t *e = was.layout.extent;
            for (uint32_t n0 = 0; n0 < e[0]; ++n0)
                for (uint32_t head = 0; head < e[1]; ++head)
                    for (uint32_t t = 0; t < e[2]; ++t)
                        for (uint32_t d = 0; d < e[3]; ++d) {
                            bool reached = seen && n0 == s.batch && head == h;
                            if (role == VKATTN_RECEIVED)
                                reached = reached && t >= s.firstKey && t - s.firstKey < s.keys && keys[t - s.firstKey];
                            else
                                reached = reached && t == token;
                            if (!reached) {
                                EXPECT_EQ(is.getWord(n0, head, t, d), was.getWord(n0, head, t, d)) << role << " " << spoiled.text();
                            } else if (role == VKATTN_TOP_KEYS) {
                                EXPECT_EQ(is.getWord(n0, head, t, d), noKey);
                            } else {
                                EXPECT_TRUE(std::isnan(is.get(n0, head, t, d))) << role << " " << spoiled.text();
                            }
                        }
        }
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(seenRows, 20);
}

// A second formulation: the weights of the forward pass's oracle, measured by src/analysis.
TEST(Statistics, areWhatIsMeasuredOfTheWeights) {
    Random random = randomFor("statistics analysis");
    int rows = 0;
    for (int n = 0; n < 60; ++n) {
        Case c = drawCase(random, n);
        if (c.data == Data::extreme) c.data = Data::normal;
        c.sinks = false;
        c.dropout = 0;
        c.writeNoPairs();
        c.weights = true;
        c.weightsType = VKATTN_F32;
        StatisticsCase drawn = drawStatistics(random, c, drawFinite(random));
        CaseData &in = *drawn.data;
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnCpuOracle(&in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), &why), VKATTN_OK)
            << why.message << drawn.text();
        runOracle(drawn);
        analysis::MeasureOptions options;
        options.density = static_cast<double>(drawn.statistics.densityThreshold);
        for (uint32_t b = 0; b < c.batch; ++b)
            for (uint32_t h = 0; h < c.heads; ++h) {
                const conform::Span &s = in.spans[b];
                if (!s.queries || !s.keys) continue;
                analysis::HeadWeights head;
                head.weights = analysis::Matrix(s.queries, s.keys);
                head.shift = in.position(b, 0);
                for (uint32_t i = 0; i < s.queries; ++i) {
                    const std::vector<unsigned char> visible = in.visibleKeys(b, h, i);
                    head.visible.insert(head.visible.end(), visible.begin(), visible.begin() + s.keys);
                    for (uint32_t j = 0; j < s.keys; ++j) head.weights(i, j) = static_cast<double>(in.weights.get(b, h, i, j));
                }
                const analysis::HeadMeasures measured = analysis::measureHead(head, options);
                for (uint32_t i = 0; i < s.queries; ++i) {
                    const analysis::RowMeasures &row = measured.rows[i];
                    const auto column = [&](vkattn_statistic which) {
                        return static_cast<double>(drawn.tensors.at(VKATTN_STATISTICS).get(s.batch, h, s.firstQuery + i, which));
                    };
                    const auto expect = [&](vkattn_statistic which, double expected) {
                        EXPECT_NEAR(column(which), expected, 2e-6 * (1 + std::abs(expected))) << which << " " << drawn.text();
                    };
                    ASSERT_NE(row.state, analysis::RowState::notFinite);
                    expect(VKATTN_STATISTIC_ENTROPY, row.entropy);
                    expect(VKATTN_STATISTIC_LARGEST, row.largest);
                    expect(VKATTN_STATISTIC_DISTANCE, row.distance);
                    expect(VKATTN_STATISTIC_DIAGONAL, row.diagonal);
                    expect(VKATTN_STATISTIC_FIRST, row.firstToken);
                    expect(VKATTN_STATISTIC_SQUARES, row.squares);
                    expect(VKATTN_STATISTIC_VISIBLE, static_cast<double>(row.visible));
                    const auto neighbours = static_cast<double>(row.neighbours);
                    expect(VKATTN_STATISTIC_LOCALITY, row.neighbours ? row.neighbourMass / neighbours : -1);
                    expect(VKATTN_STATISTIC_SIGNED_DISTANCE, row.signedDistance);
                    expect(VKATTN_STATISTIC_SQUARED_DISTANCE,
                           row.distanceDeviation * row.distanceDeviation + row.signedDistance * row.signedDistance);
                    if (row.state == analysis::RowState::ordinary) {
                        ++rows;
                        // The weights are rounded to f32: equal ones may not have been.
                        const auto key = static_cast<uint32_t>(column(VKATTN_STATISTIC_LARGEST_KEY));
                        EXPECT_NEAR(head.weights(i, key) / row.sum, row.largest, 1e-6);
                    } else {
                        expect(VKATTN_STATISTIC_LARGEST_KEY, -1);
                    }
                    // Of the topKeys largest weights.
                    double top = 0;
                    for (uint32_t t = 0; t < drawn.statistics.topWeights.extent[3]; ++t)
                        top += static_cast<double>(drawn.tensors.at(VKATTN_TOP_WEIGHTS).get(s.batch, h, s.firstQuery + i, t));
                    EXPECT_LE(top, 1 + 1e-5);
                    EXPECT_GE(top, row.largest - 1e-6);
                }
                for (uint32_t j = 0; j < s.keys; ++j)
                    EXPECT_NEAR(static_cast<double>(drawn.tensors.at(VKATTN_RECEIVED).get(s.batch, h, s.firstKey + j, 0)),
                                measured.pairs.received.empty() ? 0 : measured.pairs.received[j], 2e-6)
                        << drawn.text();
            }
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(rows, 500);
}

TEST(VerifyStatistics, seesOneWrongElement) {
    Random random = randomFor("statistics element");
    int seen[4] = {}, columns = 0;
    for (int n = 0; n < 400; ++n) {
        Case c = randomCase(random, 3);
        if (c.data == Data::extreme) c.data = Data::normal;
        StatisticsCase drawn = drawStatistics(random, c, drawFinite(random));
        if (n % 2)
            runOracle(drawn);
        else
            run(drawn, 1);
        const Element e = drawElement(drawn, random);
        if (e.role == VKATTN_ROLE_LIMIT) continue;
        HostTensor &t = drawn.tensors.at(e.role);
        if (e.role == VKATTN_TOP_KEYS) {
            const uint32_t right = t.getWord(e.at[0], e.at[1], e.at[2], e.at[3]);
            // No key, a key twice, a key that is none; what the row sees nothing of has no key.
            const uint32_t other = e.at[3] ? t.getWord(e.at[0], e.at[1], e.at[2], 0) : 1u << 20;
            const uint32_t wrong = right == noKey ? 0 : n % 4 < 2 ? noKey : other;
            if (wrong == right) continue;
            t.setWord(e.at[0], e.at[1], e.at[2], e.at[3], wrong);
            EXPECT_FALSE(verified(drawn).passed) << right << " " << wrong << " " << drawn.text();
            ++seen[3];
            continue;
        }
        const float right = t.get(e.at[0], e.at[1], e.at[2], e.at[3]);
        ASSERT_FALSE(std::isnan(right)) << drawn.text();
        // The bound is what the verifier says of an error that is surely wrong, on the same side: no weight is above 1,
        // and bounds of what is near 1 are narrower there.
        const bool above = n % 4 < 2;
        const float away = 100 + 0.1f * std::abs(right); // distances may be of any size
        t.set(e.at[0], e.at[1], e.at[2], e.at[3], above ? right + away : right - away);
        const vkattn_verify_report far = verified(drawn);
        EXPECT_FALSE(far.passed) << drawn.text();
        EXPECT_EQ(far.worstRole, e.role) << drawn.text();
        // In a ragged batch the verifier counts from the start of a sequence.
        for (int d = 0; d < 4 && !c.ragged; ++d) EXPECT_EQ(far.worstIndex[d], e.at[d]) << drawn.text();
        const bool key = e.role == VKATTN_STATISTICS && e.at[3] == VKATTN_STATISTIC_LARGEST_KEY;
        const double bound = key ? 0 : far.worstBound;
        const double step = (above ? 2.5 : -2.5) * std::max(bound, 1e-6 * (1 + std::abs(static_cast<double>(right))));
        t.set(e.at[0], e.at[1], e.at[2], e.at[3], static_cast<float>(static_cast<double>(right) + (key ? 0.5 : step)));
        EXPECT_FALSE(verified(drawn).passed) << "role " << e.role << " column " << e.at[3] << " right " << right << " bound " << bound
                                             << " " << drawn.text();
        t.set(e.at[0], e.at[1], e.at[2], e.at[3], notANumber);
        EXPECT_FALSE(verified(drawn).passed) << drawn.text();
        // The bound is a small part of what is there.
        EXPECT_LT(bound, 0.005 * (1 + std::abs(static_cast<double>(right)))) << "role " << e.role << " column " << e.at[3] << drawn.text();
        ++seen[e.role == VKATTN_STATISTICS ? 0 : e.role == VKATTN_RECEIVED ? 1 : 2];
        if (e.role == VKATTN_STATISTICS) columns |= 1 << e.at[3];
        if (::testing::Test::HasFailure()) return;
    }
    for (const int count : seen) EXPECT_GT(count, 30);
    EXPECT_EQ(columns, (1 << VKATTN_STATISTIC_COUNT) - 1);
}

TEST(VerifyStatistics, takesTheLowestOfEqualKeysAlone) {
    Random random = randomFor("statistics ties");
    Case c;
    c.data = Data::equal;
    c.poison = false;
    StatisticsOptions options = drawFinite(random);
    options.top = 3;
    StatisticsCase drawn = drawStatistics(random, c, options);
    CaseData &in = *drawn.data;
    for (uint32_t b = 0; b < c.batch; ++b)
        for (uint32_t h = 0; h < c.kvHeads; ++h)
            for (uint32_t j = 1; j < c.keyTokens; ++j)
                for (uint32_t d = 0; d < c.headDim; ++d) in.k.set(b, h, j, d, in.k.get(b, h, 0, d));
    run(drawn, 1);
    EXPECT_TRUE(verified(drawn).passed);
    HostTensor &columns = drawn.tensors.at(VKATTN_STATISTICS), &keys = drawn.tensors.at(VKATTN_TOP_KEYS);
    EXPECT_EQ(columns.get(0, 0, 3, VKATTN_STATISTIC_LARGEST_KEY), 0.0f);
    columns.set(0, 0, 3, VKATTN_STATISTIC_LARGEST_KEY, 4);
    EXPECT_FALSE(verified(drawn).passed);
    columns.set(0, 0, 3, VKATTN_STATISTIC_LARGEST_KEY, 0);
    EXPECT_TRUE(verified(drawn).passed);
    keys.setWord(1, 1, 2, 0, 5);
    EXPECT_FALSE(verified(drawn).passed);
    keys.setWord(1, 1, 2, 0, 0);
    EXPECT_TRUE(verified(drawn).passed);
    keys.setWord(1, 1, 2, keys.layout.extent[3] - 1, 0); // once more
    EXPECT_FALSE(verified(drawn).passed);
}

TEST(VerifyStatistics, checksSomeRowsOrHeadsOfLargeProblems) {
    Random random = randomFor("statistics heads");
    Case c;
    c.batch = 3, c.heads = c.kvHeads = 4;
    for (const bool receives : {false, true}) {
        StatisticsOptions asked = drawFinite(random);
        asked.received = receives;
        StatisticsCase drawn = drawStatistics(random, c, asked);
        run(drawn, 1);
        vkattn_verify_options options{};
        options.rows = 50;
        vkattn_verify_report report = verified(drawn, options);
        EXPECT_TRUE(report.passed);
        EXPECT_EQ(report.rowsTotal, 3u * 4 * 17);
        if (receives)
            EXPECT_EQ(report.rowsChecked, 3u * 17); // the first head, the last and another
        else
            EXPECT_TRUE(report.rowsChecked >= 50 && report.rowsChecked <= 70) << report.rowsChecked;
        drawn.tensors.at(VKATTN_STATISTICS).set(2, 3, 16, VKATTN_STATISTIC_ENTROPY, 1e6f);
        EXPECT_FALSE(verified(drawn, options).passed);
    }
}
