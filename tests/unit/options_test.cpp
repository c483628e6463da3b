// Bit masks, ALiBi, sinks, ragged batches, documents and bf16 against values worked out by hand,
// and cu_seqlens that nobody can trust.
#include "support/seed.hpp"
#include "vkattn/cpu.h"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quietNan = std::numeric_limits<float>::quiet_NaN();
constexpr float untouched = -12345.0f;

// Head dim and value dim 1, scale 1: the score of a pair is q * k. Memory is exactly as large as
// the problem says, so that a sanitizer sees every step outside.
struct Tiny {
    uint32_t heads, queries, keys; // of the tensors; ragged: the totals
    vkattn_problem p{};
    std::vector<float> q, k, v, out, lse, weights, sinks, slopes, bias;
    std::vector<uint32_t> bits, lengths, cuQ, cuK, docsQ, docsK;

    Tiny(uint32_t headCount, uint32_t queryCount, uint32_t keyCount) : heads(headCount), queries(queryCount), keys(keyCount) {
        p = problem(packed(VKATTN_F32, 1, heads, queries, 1), packed(VKATTN_F32, 1, 1, keys, 1), packed(VKATTN_F32, 1, 1, keys, 1),
                    packed(VKATTN_F32, 1, heads, queries, 1));
        p.lse = packed(VKATTN_F32, 1, heads, queries, 1);
        p.flags = VKATTN_SCALE;
        p.scale = 1;
        q.assign(size_t{heads} * queries, 1.0f);
        k.assign(keys, 0.0f);
        for (uint32_t j = 0; j < keys; ++j) v.push_back(static_cast<float>(j));
    }
    void withStatistics() {
        p.lse = packed(VKATTN_F32, 1, heads, queries, 2);
        p.flags |= VKATTN_ROW_STATISTICS;
    }
    void withWeights() { p.weights = packed(VKATTN_F32, 1, heads, queries, keys); }
    std::vector<vkattn_operand_memory> operands() {
        std::vector<vkattn_operand_memory> list;
        p.presentRoles = 0;
        const auto add = [&](vkattn_role role, auto &array) {
            if (role >= VKATTN_KEY_LENGTHS && array.empty()) return;
            if (role >= VKATTN_KEY_LENGTHS) p.presentRoles |= VKATTN_PRESENT(role);
            list.push_back({role, array.data(), array.size() * 4});
        };
        add(VKATTN_Q, q);
        add(VKATTN_K, k);
        add(VKATTN_V, v);
        add(VKATTN_OUT, out);
        add(VKATTN_LSE, lse);
        if (p.weights.extent[0]) add(VKATTN_WEIGHTS, weights);
        if (!bias.empty()) add(VKATTN_BIAS, bias);
        if (!bits.empty()) add(VKATTN_BIT_MASK, bits);
        add(VKATTN_KEY_LENGTHS, lengths);
        add(VKATTN_CU_SEQ_Q, cuQ);
        add(VKATTN_CU_SEQ_K, cuK);
        add(VKATTN_DOC_IDS_Q, docsQ);
        add(VKATTN_DOC_IDS_K, docsK);
        add(VKATTN_SINKS, sinks);
        add(VKATTN_ALIBI_SLOPES, slopes);
        p.sequences = cuQ.empty() ? 0 : static_cast<uint32_t>(cuQ.size()) - 1;
        return list;
    }
    // The expected result is the oracle's; the fallback and the verifier must agree.
    void run() {
        for (const bool byOracle : {false, true}) {
            out.assign(size_t{heads} * queries, untouched);
            lse.assign(size_t{heads} * queries * p.lse.extent[3], untouched);
            const uint32_t *w = p.weights.extent;
            weights.assign(size_t{w[0]} * w[1] * w[2] * w[3], untouched);
            auto list = operands();
            const auto count = static_cast<uint32_t>(list.size());
            vkattn_diagnostic why{};
            ASSERT_EQ(byOracle ? vkattnCpuOracle(&p, list.data(), count, &why) : vkattnCpuRun(&p, list.data(), count, 1, &why), VKATTN_OK)
                << why.message;
            EXPECT_TRUE(verified());
        }
    }
    bool verified(vkattn_verify_report *kept = nullptr) {
        auto list = operands();
        vkattn_verify_report report{};
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnCpuVerify(&p, list.data(), static_cast<uint32_t>(list.size()), nullptr, &report, &why), VKATTN_OK) << why.message;
        if (kept) *kept = report;
        return report.passed != 0;
    }
};

const float ln2 = std::log(2.0f);

} // namespace

TEST(BitMask, lowestBitFirst) {
    Tiny t(1, 2, 33);
    t.p.bitMask = packed(VKATTN_BITS32, 1, 1, 2, 2);
    // bits past the last key say nothing
    t.bits = {0x80000001u, 0xffffffffu, 0x00000100u, 0xfffffffeu};
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], (0 + 31 + 32) / 3.0f);
    EXPECT_FLOAT_EQ(t.out[1], 8);
    EXPECT_FLOAT_EQ(t.lse[0], std::log(3.0f));
    t.p.bitMask = packed(VKATTN_BITS32, 1, 1, 1, 2); // one row for both queries
    t.bits = {0, 1};
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], 32);
    EXPECT_FLOAT_EQ(t.out[1], 32);
    t.bits = {0, 2};
    t.run();
    EXPECT_EQ(t.out[1], 0);
    EXPECT_EQ(t.lse[1], -infinity);
}

TEST(Alibi, measuresFromTheAlignedPosition) {
    Tiny t(1, 1, 3);
    t.slopes = {ln2}; // a step of distance halves the weight
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], (1 * 0.5f + 2 * 1) / 1.75f); // bottom-right: at the last key
    EXPECT_FLOAT_EQ(t.lse[0], std::log(1.75f));
    t.p.flags |= VKATTN_ALIGN_TOP_LEFT;
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], (1 * 0.5f + 2 * 0.25f) / 1.75f);
    t.p.flags &= ~static_cast<uint32_t>(VKATTN_ALIGN_TOP_LEFT);
    t.lengths = {2};
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], 1 / 1.5f);

    Tiny two(2, 2, 3); // the first query stands at key 1: later keys are as far as earlier ones
    two.slopes = {ln2, -ln2};
    two.run();
    EXPECT_FLOAT_EQ(two.out[0], (0 * 0.5f + 1 + 2 * 0.5f) / 2);
    EXPECT_FLOAT_EQ(two.out[2], (0 * 2 + 1 + 2 * 2) / 5.0f);
    Tiny before(1, 4, 1); // i' is below zero in the first three rows: the distance is 3, 2, 1, 0
    before.slopes = {2};
    before.run();
    for (uint32_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(before.lse[i], -2.0f * static_cast<float>(3 - i));
}

TEST(Alibi, comesAfterSoftcapAndBias) {
    Tiny t(1, 1, 2);
    t.k = {0, 1e6f};
    t.p.softcap = 3; // 0 and 3
    t.p.bias = packed(VKATTN_F32, 1, 1, 1, 2);
    t.bias = {5, 0};
    t.slopes = {2}; // distances 1 and 0
    t.run();
    EXPECT_FLOAT_EQ(t.lse[0], 3 + ln2); // 0 + 5 - 2 and 3 + 0 - 0
    EXPECT_FLOAT_EQ(t.out[0], 0.5f);
}

TEST(Sinks, takePartWithoutAValue) {
    Tiny t(4, 1, 2);
    t.withWeights();
    t.v = {4, 8};
    t.sinks = {ln2, -infinity, 1000, -1000};
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], 12 / 4.0f); // two weights of 1, and a sink of 2
    EXPECT_FLOAT_EQ(t.lse[0], std::log(4.0f));
    EXPECT_FLOAT_EQ(t.weights[0], 0.25f);
    EXPECT_FLOAT_EQ(t.out[1], 6);
    EXPECT_FLOAT_EQ(t.lse[1], ln2);
    EXPECT_EQ(t.out[2], 0);
    EXPECT_EQ(t.lse[2], 1000);
    EXPECT_FLOAT_EQ(t.out[3], 6);
    t.k = {1000, 1000}; // nothing overflows: the maximum counts the sink
    t.run();
    EXPECT_FLOAT_EQ(t.out[2], 12 / 3.0f);
    EXPECT_FLOAT_EQ(t.lse[2], 1000 + std::log(3.0f));
}

TEST(Sinks, areAllThatIsLeftWhereNothingIsVisible) {
    Tiny t(3, 2, 2);
    t.withWeights();
    t.k = t.v = {quietNan, infinity};
    t.lengths = {0};
    t.sinks = {1.5f, -infinity, -1000};
    t.run();
    for (const float w : t.weights) EXPECT_EQ(w, 0);
    for (const float o : t.out) EXPECT_EQ(o, 0);
    EXPECT_EQ(t.lse, (std::vector<float>{1.5f, 1.5f, -infinity, -infinity, -1000, -1000}));
}

TEST(Sinks, thatAreNotFinite) {
    Tiny t(3, 1, 2);
    t.sinks = {quietNan, infinity, 0};
    t.run();
    EXPECT_TRUE(std::isnan(t.out[0]) && std::isnan(t.lse[0]));
    EXPECT_TRUE(std::isnan(t.out[1]) && std::isnan(t.lse[1]));
    EXPECT_FLOAT_EQ(t.out[2], 1 / 3.0f); // the neighbour is as ever
    t.k = {-infinity, -infinity};        // visible, but only the sink has a score
    t.sinks = {3, 0, -infinity};
    t.run();
    EXPECT_EQ(t.out[0], 0);
    EXPECT_EQ(t.lse[0], 3);
    EXPECT_TRUE(std::isnan(t.out[2]));
}

TEST(RowStatistics, areTheMaximumAndTheSumBesideIt) {
    Tiny t(4, 1, 2);
    t.withStatistics();
    t.k = {1, 3};
    t.sinks = {-infinity, 3, 1000, -1000};
    t.run();
    const float less = std::exp(-2.0f);
    const std::vector<float> expected = {3, 1 + less, 3, 2 + less, 1000, 1, 3, 1 + less};
    for (size_t n = 0; n < expected.size(); ++n) EXPECT_FLOAT_EQ(t.lse[n], expected[n]) << n;
    t.lengths = {0}; // nothing visible: the sink and its own weight
    t.run();
    EXPECT_EQ(t.lse, (std::vector<float>{-infinity, 0, 3, 1, 1000, 1, -1000, 1}));
    t.lengths.clear();
    t.sinks.clear();
    t.k = {quietNan, 3};
    t.run();
    for (const float each : t.lse) EXPECT_TRUE(std::isnan(each));
    t.k = {infinity, 3};
    t.run();
    for (const float each : t.lse) EXPECT_TRUE(std::isnan(each));
    t.k = {-infinity, -infinity}; // visible: no empty row
    t.sinks = {-infinity, 3, quietNan, infinity};
    t.run();
    EXPECT_TRUE(std::isnan(t.lse[0]) && std::isnan(t.lse[1]));
    EXPECT_TRUE(t.lse[2] == 3 && t.lse[3] == 1);
    for (size_t n = 4; n < 8; ++n) EXPECT_TRUE(std::isnan(t.lse[n])) << n;
    t.k = {-infinity, 3};
    t.sinks.clear();
    t.run();
    EXPECT_TRUE(t.lse[0] == 3 && t.lse[1] == 1);
}

// The log-sum-exp of these rows has lost ln(100).
TEST(RowStatistics, keepTheSumOfLargeScores) {
    for (const float score : {1e6f, -1e9f}) {
        Tiny t(1, 1, 100);
        t.withStatistics();
        t.k.assign(100, score);
        t.run();
        EXPECT_EQ(t.lse[0], score);
        EXPECT_EQ(t.lse[1], 100);
        EXPECT_FLOAT_EQ(std::exp(score - t.lse[0]) / t.lse[1], 0.01f);
    }
    Tiny t(1, 1, 100);
    t.withStatistics();
    t.p.bias = packed(VKATTN_F32, 1, 1, 1, 100);
    t.bias.assign(100, -1e9f);
    t.run();
    t.lse[1] = std::exp(t.lse[0] + std::log(100.0f) - t.lse[0]); // what the log-sum-exp leaves of the sum
    EXPECT_FALSE(t.verified()) << t.lse[1];
}

TEST(RowStatistics, lieWhereTheirStridesSay) {
    Tiny t(2, 3, 4);
    t.k = {0, 1, 2, 3};
    t.p.flags |= VKATTN_CAUSAL | VKATTN_ROW_STATISTICS;
    t.p.lse = {VKATTN_F32, {1, 2, 3, 2}, {0, 3, 1, 6}, 0}; // all maxima, then all sums
    t.run();
    for (uint32_t h = 0; h < 2; ++h)
        for (uint32_t i = 0; i < 3; ++i) {
            float sum = 0;
            for (uint32_t j = 0; j <= i + 1; ++j) sum += std::exp(-static_cast<float>(j));
            EXPECT_EQ(t.lse[3 * h + i], static_cast<float>(i + 1));
            EXPECT_FLOAT_EQ(t.lse[6 + 3 * h + i], sum);
        }
}

TEST(Documents, areComparedAsUnsignedNumbers) {
    Tiny t(1, 3, 4);
    // The second is a NaN's pattern: not a float comparison.
    t.docsQ = {0xffffffffu, 0x7fc00000u, 5};
    t.docsK = {0xffffffffu, 0x7fc00000u, 0x7fc00000u, 0};
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{0, 1.5f, 0}));
    EXPECT_EQ(t.lse[0], 0);
    EXPECT_EQ(t.lse[2], -infinity);
    t.p.flags |= VKATTN_CAUSAL; // i' = i + 1
    t.docsK = {0x7fc00000u, 0x7fc00000u, 0x7fc00000u, 5};
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{0, 1, 3}));
}

TEST(Ragged, sequencesLieOneAfterTheOther) {
    Tiny t(1, 5, 7);
    t.cuQ = {1, 3, 3, 4}; // queries 0 and 4 belong to nobody
    t.cuK = {1, 3, 5, 6};
    t.k = {quietNan, 0, 0, quietNan, quietNan, 0, quietNan};
    t.v[0] = t.v[3] = t.v[4] = t.v[6] = quietNan;
    t.p.flags |= VKATTN_CAUSAL;
    t.p.weights = packed(VKATTN_F32, 3, 1, 2, 3);
    t.p.maxSeqQ = 2, t.p.maxSeqK = 3;
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{untouched, 1, 1.5f, 5, untouched}));
    EXPECT_EQ(t.lse, (std::vector<float>{untouched, 0, t.lse[2], 0, untouched}));
    EXPECT_FLOAT_EQ(t.lse[2], ln2);
    const float _ = untouched;
    EXPECT_EQ(t.weights, (std::vector<float>{1, 0, _, 0.5f, 0.5f, _, _, _, _, _, _, _, 1, _, _, _, _, _}));
    // Cut off at one query: the row that is left is aligned by the lengths after the cut, and sees
    // both keys.
    t.p.maxSeqQ = 1;
    t.p.weights = {};
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{untouched, 1.5f, untouched, 5, untouched}));
    t.p.maxSeqK = 1;
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{untouched, 1, untouched, 5, untouched}));
    vkattn_verify_report report{};
    EXPECT_TRUE(t.verified(&report));
    EXPECT_EQ(report.rowsTotal, 2u);
}

TEST(Ragged, optionsCountFromTheStartOfTheSequence) {
    Tiny t(1, 3, 5);
    t.cuQ = {0, 1, 3}, t.cuK = {0, 2, 5};
    t.slopes = {ln2};
    t.run();
    EXPECT_FLOAT_EQ(t.out[0], 1 / 1.5f);                           // keys 0, 1
    EXPECT_FLOAT_EQ(t.out[1], (2 * 0.5f + 3 + 4 * 0.5f) / 2);      // keys 2, 3, 4, standing at 3
    EXPECT_FLOAT_EQ(t.out[2], (2 * 0.25f + 3 * 0.5f + 4) / 1.75f); // standing at 4
    t.slopes.clear();
    t.docsQ = {1, 2, 1}, t.docsK = {1, 2, 1, 2, 2}; // indexed by the token in the total
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{0, 3.5f, 2}));
    t.docsQ.clear(), t.docsK.clear();
    t.p.maxSeqQ = 2, t.p.maxSeqK = 3;
    t.p.bitMask = packed(VKATTN_BITS32, 2, 1, 2, 1);
    t.bits = {2, 0, 1, 6};
    t.run();
    EXPECT_EQ(t.out, (std::vector<float>{1, 2, 3.5f}));
}

// Whatever the arrays hold, every row is the mean of the values that plain clamping gives the row,
// and nothing else is written.
TEST(Ragged, hostileArraysStayInBounds) {
    Random random = randomFor("hostile");
    for (int round = 0; round < 2000; ++round) {
        Tiny t(between(random, 1, 2), between(random, 0, 12), between(random, 0, 40));
        const uint32_t sequences = between(random, 1, 6);
        const auto draw = [&](uint32_t total) {
            std::vector<uint32_t> cu;
            for (uint32_t n = 0; n <= sequences; ++n) switch (random() % 6) {
                case 0:
                    cu.push_back(static_cast<uint32_t>(random()));
                    break;
                case 1:
                    cu.push_back(0xffffffffu - between(random, 0, 2));
                    break;
                case 2:
                    cu.push_back(total + between(random, 0, 2));
                    break;
                default:
                    cu.push_back(round % 2 ? between(random, 0, total) : n * total / sequences);
                }
            return cu;
        };
        t.cuQ = draw(t.queries), t.cuK = draw(t.keys);
        if (t.queries && random() % 2) t.p.maxSeqQ = between(random, 1, t.queries);
        if (t.keys && random() % 2) t.p.maxSeqK = between(random, 1, t.keys);
        if (random() % 2) t.p.flags |= VKATTN_CAUSAL;

        std::vector<float> expected(size_t{t.heads} * t.queries, untouched);
        uint32_t queryEnd = 0, keyEnd = 0, rows = 0;
        for (uint32_t b = 0; b <= sequences; ++b) {
            uint32_t queryEntry = t.cuQ[b], keyEntry = t.cuK[b];
            if (queryEntry > t.queries) queryEntry = t.queries;
            if (queryEntry < queryEnd) queryEntry = queryEnd;
            if (keyEntry > t.keys) keyEntry = t.keys;
            if (keyEntry < keyEnd) keyEntry = keyEnd;
            if (b > 0) {
                int queries = static_cast<int>(queryEntry - queryEnd), keys = static_cast<int>(keyEntry - keyEnd);
                if (t.p.maxSeqQ) queries = std::min(queries, static_cast<int>(t.p.maxSeqQ));
                if (t.p.maxSeqK) keys = std::min(keys, static_cast<int>(t.p.maxSeqK));
                for (int i = 0; i < queries; ++i) {
                    const int seen = t.p.flags & VKATTN_CAUSAL ? std::clamp(i + keys - queries + 1, 0, keys) : keys;
                    const float mean = seen ? static_cast<float>(keyEnd) + static_cast<float>(seen - 1) / 2 : 0;
                    for (uint32_t h = 0; h < t.heads; ++h) expected[h * t.queries + queryEnd + static_cast<uint32_t>(i)] = mean;
                }
                rows += static_cast<uint32_t>(queries) * t.heads;
            }
            queryEnd = queryEntry, keyEnd = keyEntry;
        }
        t.run();
        for (size_t n = 0; n < expected.size(); ++n) ASSERT_NEAR(t.out[n], expected[n], 1e-5) << "round " << round << ", row " << n;
        for (size_t n = 0; n < expected.size(); ++n) ASSERT_EQ(t.lse[n] == untouched, expected[n] == untouched) << "round " << round;
        vkattn_verify_report report{};
        ASSERT_TRUE(t.verified(&report));
        ASSERT_EQ(report.rowsTotal, rows) << "round " << round;
    }
}

TEST(Ragged, verifierDrawsRowsOfSequencesOnly) {
    Tiny t(2, 3000, 3000);
    t.cuQ = {5, 5, 1500, 1500, 2900, 2900}, t.cuK = {0, 0, 8, 10, 20, 3000};
    t.run();
    auto list = t.operands();
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.rows = 10;
    vkattn_verify_report report{};
    const auto check = [&] {
        EXPECT_EQ(vkattnCpuVerify(&t.p, list.data(), static_cast<uint32_t>(list.size()), &options, &report, nullptr), VKATTN_OK);
        return report.passed != 0;
    };
    EXPECT_TRUE(check());
    EXPECT_EQ(report.rowsTotal, 2u * 2895);
    EXPECT_GE(report.rowsChecked, 10u);
    EXPECT_LE(report.rowsChecked, 30u);
    for (const uint32_t edge : {5u, 6u, 1499u, 1500u, 2899u}) {
        const float right = std::exchange(t.out[3000 + edge], 77.0f);
        EXPECT_FALSE(check()) << edge;
        t.out[3000 + edge] = right;
    }
    EXPECT_FALSE(!check());
    t.out[2899] = 77;
    EXPECT_FALSE(check());
    EXPECT_EQ(report.worstIndex[0], 3u);
    EXPECT_EQ(report.worstIndex[2], 1399u);
}

TEST(Options, everyRoleIsRequiredLargeAndAligned) {
    Tiny t(2, 4, 40);
    t.cuQ = {0, 4}, t.cuK = {0, 40};
    t.docsQ.assign(4, 0), t.docsK.assign(40, 0);
    t.sinks = t.slopes = {0, 0};
    t.p.bitMask = packed(VKATTN_BITS32, 1, 2, 4, 2);
    t.bits.assign(16, ~0u);
    t.run();
    const struct {
        vkattn_role role;
        const char *name;
        size_t bytes;
    } roles[] = {{VKATTN_BIT_MASK, "bit mask", 64},
                 {VKATTN_CU_SEQ_Q, "cu_seqlens of queries", 8},
                 {VKATTN_CU_SEQ_K, "cu_seqlens of keys", 8},
                 {VKATTN_DOC_IDS_Q, "document ids of queries", 16},
                 {VKATTN_DOC_IDS_K, "document ids of keys", 160},
                 {VKATTN_SINKS, "sinks", 8},
                 {VKATTN_ALIBI_SLOPES, "ALiBi slopes", 8}};
    for (const auto &role : roles) {
        const auto refused = [&](const std::string &expected, auto spoil) {
            auto list = t.operands();
            const auto at = std::find_if(list.begin(), list.end(), [&](const auto &o) { return o.role == role.role; });
            ASSERT_NE(at, list.end());
            EXPECT_EQ(at->bytes, role.bytes);
            spoil(list, at);
            vkattn_diagnostic why{};
            EXPECT_EQ(vkattnCpuCheckOperands(&t.p, list.data(), static_cast<uint32_t>(list.size()), &why), VKATTN_ERROR_INVALID_ARGUMENT);
            EXPECT_EQ(std::string(why.message).find(role.name + (" " + expected)), 0u) << why.message;
        };
        refused("is missing", [](auto &list, auto at) { list.erase(at); });
        refused("has " + std::to_string(role.bytes - 1) + " bytes, expected at least " + std::to_string(role.bytes),
                [](auto &, auto at) { --at->bytes; });
        refused("has no data", [](auto &, auto at) { at->data = nullptr; });
        refused("is not aligned", [](auto &, auto at) { at->data = static_cast<unsigned char *>(at->data) + 2; });
        refused("is given twice", [](auto &list, auto at) { list.push_back(*at); });
    }
}

TEST(Options, theCpuIgnoresKernelAndDeterminism) {
    Tiny t(2, 5, 9);
    Random random = randomFor("kernel");
    for (auto *array : {&t.q, &t.k, &t.v})
        for (float &x : *array) x = static_cast<float>(random() % 1000) * 0.01f;
    t.run();
    const std::vector<float> first = t.out;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
        t.p.kernel = kernel;
        t.p.flags |= VKATTN_DETERMINISTIC;
        t.run();
        EXPECT_EQ(t.out, first);
    }
}

TEST(Bfloat16Storage, isReadExactlyAndStoredToNearestEven) {
    // One key: the weight is 1, and the output is the value.
    // `plain`: a number whose units in the last place are above the bounds' absolute part.
    constexpr uint32_t dims = 2048, plain = 4;
    Random random = randomFor("bf16");
    const float one = 1;
    for (const bool input : {true, false}) {
        std::vector<uint16_t> bfloats(dims);
        std::vector<float> floats(dims);
        const vkattn_layout scalar = packed(VKATTN_F32, 1, 1, 1, 1);
        vkattn_problem p = problem(scalar, scalar, packed(input ? VKATTN_BF16 : VKATTN_F32, 1, 1, 1, dims),
                                   packed(input ? VKATTN_F32 : VKATTN_BF16, 1, 1, 1, dims));
        for (uint32_t d = 0; d < dims; ++d) {
            bfloats[d] = static_cast<uint16_t>(random());
            if ((bfloats[d] & 0x7f80) == 0x7f80) bfloats[d] = 0;
            if (d == plain) bfloats[d] = 0x4049;
            constexpr uint32_t tails[] = {0x8000, 0x7fff, 0x8001}; // a tie, just below, just above
            floats[d] = std::bit_cast<float>(uint32_t{bfloats[d]} << 16 | tails[d % 3]);
        }
        const std::vector<uint16_t> low = bfloats;
        void *narrow = bfloats.data(), *wide = floats.data();
        const vkattn_operand_memory list[] = {{VKATTN_Q, const_cast<float *>(&one), 4},
                                              {VKATTN_K, const_cast<float *>(&one), 4},
                                              {VKATTN_V, input ? narrow : wide, dims * (input ? 2 : 4)},
                                              {VKATTN_OUT, input ? wide : narrow, dims * (input ? 4 : 2)}};
        for (const bool byOracle : {false, true}) {
            ASSERT_EQ(byOracle ? vkattnCpuOracle(&p, list, 4, nullptr) : vkattnCpuRun(&p, list, 4, 1, nullptr), VKATTN_OK);
            vkattn_verify_report report{};
            ASSERT_EQ(vkattnCpuVerify(&p, list, 4, nullptr, &report, nullptr), VKATTN_OK);
            EXPECT_TRUE(report.passed) << report.worstGot << " " << report.worstExpected;
            for (uint32_t d = 0; d < dims; ++d) {
                // 0x8001, or a tie at an odd one
                const bool up = d % 3 == 2 || (d % 3 == 0 && (low[d] & 1));
                if (input)
                    EXPECT_EQ(std::bit_cast<uint32_t>(floats[d] + 0.0f),
                              uint32_t{low[d]} << 16 == 0x80000000u ? 0 : uint32_t{low[d]} << 16);
                else
                    EXPECT_EQ(bfloats[d] == 0x8000 ? 0 : bfloats[d], low[d] + up == 0x8000 ? 0 : low[d] + up) << d;
            }
        }
        if (input) continue;
        // Two units in the last place are seen.
        bfloats[plain] = static_cast<uint16_t>(bfloats[plain] + 2);
        vkattn_verify_report report{};
        ASSERT_EQ(vkattnCpuVerify(&p, list, 4, nullptr, &report, nullptr), VKATTN_OK);
        EXPECT_FALSE(report.passed);
    }
}

// A kernel may well compute exponents in base 2, and round large ALiBi terms otherwise than the
// emulation does. One row alone gives the emulation too little to show its errors: the tolerance
// must know them by size.
TEST(Alibi, toleranceCoversOtherRoundingsOfLargeTerms) {
    Random random = randomFor("base 2");
    const auto number = [&](float least, float most) { return least + (most - least) * static_cast<float>(random() % 100000) * 1e-5f; };
    int seen = 0;
    for (int round = 0; round < 300; ++round) {
        Tiny t(1, 1, between(random, 100, 100000));
        t.slopes = {round % 2 ? number(0.2f, 1) : std::exp2(-static_cast<float>(random() % 4))};
        // The farthest keys: all terms are large, and near each other.
        constexpr uint32_t visible = 8;
        t.p.bitMask = packed(VKATTN_BITS32, 1, 1, 1, (t.keys + 31) / 32);
        t.bits.assign(t.p.bitMask.extent[3], 0);
        t.bits[0] = (1u << visible) - 1;
        for (uint32_t j = 0; j < visible; ++j) t.k[j] = number(-2, 2), t.v[j] = number(-1, 1);
        constexpr float log2e = 1.44269504f;
        float s[visible], top = -infinity, sum = 0, dot = 0;
        for (uint32_t j = 0; j < visible; ++j) {
            const float slope = t.slopes[0] * log2e;
            s[j] = t.k[j] * log2e - slope * static_cast<float>(t.keys - 1 - j);
            top = std::max(top, s[j]);
        }
        for (uint32_t j = 0; j < visible; ++j) sum += s[j] = std::exp2(s[j] - top);
        for (uint32_t j = 0; j < visible; ++j) dot += s[j] * t.v[j];
        t.out = {dot / sum};
        t.lse = {(top + std::log2(sum)) / log2e};
        vkattn_verify_report report{};
        EXPECT_TRUE(t.verified(&report)) << "round " << round << ", error " << report.worstError << " bound " << report.worstBound;
        // No key more is hidden: a key left out is still seen.
        t.out[0] = (dot - s[3] * t.v[3]) / (sum - s[3]);
        seen += !t.verified();
    }
    EXPECT_GT(seen, 120); // about 205: of the others the weight is too small to matter
}
