// The oracle against formulas written here once more; the fallback and the verifier against the
// oracle; bad operands.
#include "support/case.hpp"
#include "support/extent.hpp"
#include "support/rule_mask.hpp"
#include "vkattn/cpu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// By default one of three pairs of options, of which a matrix has most.
bool isTaken(const Case &c, Random &random) {
    const bool ofTwoOptions = c.name.find('_') != std::string::npos;
    return !ofTwoOptions || isDrawn(random, 3);
}

uint32_t count(const test::CaseData &in) {
    return static_cast<uint32_t>(in.operands.size());
}

// "Visible" of docs/numerics.md, straight from the page: the intersection of rules and masks, documents,
// lengths and bias.
class Visible {
  public:
    explicit Visible(const test::CaseData &in)
        : in_(in), mask_(maskOfRules(in)), queries_(in.problem.maxSeqQ ? in.problem.maxSeqQ : in.problem.q.extent[2]),
          keys_(mostKeys(in.problem)) {
        // A program is told of the keys that masks have.
        for (const vkattn_layout *each : {&in.problem.bias, &in.problem.mask})
            if (each->extent[3] > 1) masked_ = std::min(masked_, each->extent[3]);
    }
    bool operator()(uint32_t b, uint32_t h, uint32_t i, uint32_t j) const {
        const Case &c = in_.c;
        const Span &s = in_.spans[b];
        if (i >= s.queries || j >= s.keys || !in_.placeOf(s, j)) return false;
        if (mask_[((size_t{b} * in_.problem.q.extent[1] + h) * queries_ + i) * keys_ + j] == 0) return false;
        if (c.documents != Documents::none) {
            const size_t row = size_t{s.batch} * in_.problem.q.extent[2],
                         column = size_t{s.batch} * (c.ragged ? in_.problem.k.extent[2] : keys_);
            if (in_.docsQ[row + s.firstQuery + i] != in_.docsK[column + s.firstKey + j]) return false;
        }
        if (hidePairs(c.hooks) && j + 1 != std::min(s.keys, masked_)) { // hooks.glsl
            const uint32_t place = (i * 7 + j / 3 + h * 5 + b) % 47, word = in_.hookBits[std::min(place, hookBits - 1)];
            if ((word >> (j + 5) % 32 & 1) == 0) return false;
        }
        const uint32_t *e = in_.bias.layout.extent;
        if (c.biasBroadcast && e[3] > 1 && j >= e[3]) return false; // a bias of fewer keys hides the others
        return !c.biasBroadcast || in_.bias.get(e[0] > 1 ? b : 0, e[1] > 1 ? h : 0, e[2] > 1 ? i : 0, e[3] > 1 ? j : 0) !=
                                       -std::numeric_limits<float>::infinity();
    }

  private:
    const test::CaseData &in_;
    std::vector<unsigned char> mask_;
    uint32_t queries_, keys_, masked_ = 0xffffffffu;
};

// docs/numerics.md, straight from the page, in long double. Returns the largest error of what `in`
// holds, relative where a value is above 1.
double largestError(const test::CaseData &in) {
    const Case &c = in.c;
    const Visible visible(in);
    const long double scale =
        in.c.scale ? static_cast<long double>(*c.scale) : static_cast<long double>(1.0f / std::sqrt(static_cast<float>(c.headDim)));
    double worst = 0;
    const auto compare = [&](float got, long double expected) {
        // NaN is compared too: std::max would pass over NaN.
        if (std::isnan(expected)) {
            if (std::isfinite(got)) worst = std::numeric_limits<double>::infinity();
        } else if (std::isinf(expected) || !std::isfinite(got)) {
            if (!(static_cast<long double>(got) == expected)) worst = std::numeric_limits<double>::infinity();
        } else {
            worst = std::max(
                worst, static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / std::max(1.0L, std::fabs(expected))));
        }
    };
    for (uint32_t b = 0; b < c.batch; ++b)
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t i = 0; i < in.spans[b].queries; ++i) {
                const Span &span = in.spans[b];
                const uint32_t kv = h / (c.heads / c.kvHeads), row = span.firstQuery + i;
                const uint32_t keys = c.ragged ? span.keys : mostKeys(in.problem);
                std::vector<long double> e(keys), o(c.valueDim);
                // The sum that is stored beside a maximum is of scores in f32, as the maximum is.
                const auto stored = [&](long double score) { return static_cast<long double>(static_cast<float>(score)); };
                const long double sink = c.sinks ? static_cast<long double>(in.sinks[h]) : -std::numeric_limits<long double>::infinity();
                // What the row goes on from: one more score, with a value of its own.
                long double prior = -std::numeric_limits<long double>::infinity();
                if (c.prior) prior = static_cast<long double>(in.priorLse.get(span.batch, h, row, 0));
                if (std::isinf(prior) && prior > 0) prior = std::numeric_limits<long double>::quiet_NaN();
                long double top = std::isnan(prior) ? prior : std::max(sink, prior);
                for (uint32_t j = 0; j < keys; ++j) {
                    const bool there = j < span.keys, shown = visible(b, h, i, j), final = c.scores == VKATTN_SCORES_FINAL;
                    const auto isStored = [&](vkattn_score_stage stage, long double score) {
                        if (c.scores == stage) compare(in.scores.get(b, h, i, j), score);
                    };
                    if (!there || (final && !shown))
                        isStored(c.scores.value_or(VKATTN_SCORES_RAW), final ? -std::numeric_limits<long double>::infinity() : 0);
                    if (!there || (!shown && !c.scores)) continue;
                    long double s = 0;
                    const CaseData::KeyPlace at = *in.placeOf(span, j);
                    for (uint32_t d = 0; d < c.headDim; ++d)
                        s += static_cast<long double>(in.q.get(span.batch, h, row, d)) *
                             static_cast<long double>(in.k.get(at.batch, kv, at.token, d));
                    isStored(VKATTN_SCORES_RAW, s);
                    s *= scale;
                    isStored(VKATTN_SCORES_SCALED, s);
                    if (c.softcap > 0) s = static_cast<long double>(c.softcap) * std::tanh(s / static_cast<long double>(c.softcap));
                    isStored(VKATTN_SCORES_CAPPED, s);
                    if (!shown) continue;
                    if (c.biasBroadcast) {
                        const uint32_t *x = in.bias.layout.extent;
                        s += static_cast<long double>(in.bias.get(x[0] > 1 ? b : 0, x[1] > 1 ? h : 0, x[2] > 1 ? i : 0, x[3] > 1 ? j : 0));
                    }
                    if (c.alibi)
                        s -= static_cast<long double>(in.slopes[h]) * std::fabs(static_cast<long double>(int64_t{j} - in.position(b, i)));
                    if (changeScores(c.hooks)) { // hooks.glsl
                        const uint32_t place = (j * 5 + i * 3 + h) % 61;
                        const auto added = static_cast<long double>(std::bit_cast<float>(in.hookNumbers[std::min(place, hookNumbers - 1)]));
                        const auto far = static_cast<long double>(std::abs(int64_t{j} - in.position(b, i)) % 17);
                        s += added - 0.25L * std::clamp(s, -8.0L, 8.0L) - 0.03125L * far + 0.125L * (b % 2);
                    }
                    isStored(VKATTN_SCORES_FINAL, s);
                    e[j] = s;
                    if (!(s <= top) && !std::isnan(prior)) top = s;
                }
                long double sum = std::isinf(sink) ? 0 : std::exp(sink - top),
                            storedSum = std::isinf(sink) ? 0 : std::exp(sink - stored(top));
                const long double ofPrior = std::isinf(prior) ? 0 : std::exp(prior - top);
                sum += ofPrior;
                for (uint32_t j = 0; j < keys; ++j) {
                    if (!visible(b, h, i, j)) continue;
                    if (areSumless(c.hooks)) { // hooks.glsl
                        e[j] = 1 / (1 + std::exp(-e[j])), sum = 1;
                        continue;
                    }
                    storedSum += std::exp(stored(e[j]) - stored(top));
                    sum += e[j] = std::exp(e[j] - top);
                }
                for (uint32_t j = 0; j < keys; ++j) {
                    const bool seen = visible(b, h, i, j);
                    const vkattn_problem &p = in.problem;
                    const bool kept = vkattnDropoutKeeps(p.dropout, p.dropoutSeed, p.dropoutOffset, b * c.heads + h, i, j);
                    const long double threshold = std::nearbyint(static_cast<long double>(p.dropout) * 0x1p32L);
                    const long double factor = kept ? 0x1p32L / (0x1p32L - threshold) : 0;
                    const long double weighing =
                        weighProbabilities(c.hooks) ? 0.25L * ((j * 3 + i * 5 + h + b) % 7) - 0.375L : 1; // hooks.glsl
                    if (c.weights)
                        compare(in.weights.get(b, h, i, j), seen ? e[j] / sum * (p.flags & VKATTN_WEIGHTS_DROPPED ? factor : 1) : 0);
                    if (!seen || !kept) continue;
                    const CaseData::KeyPlace at = *in.placeOf(span, j);
                    for (uint32_t d = 0; d < c.valueDim; ++d)
                        o[d] += weighing * factor * e[j] / sum * static_cast<long double>(in.v.get(at.batch, kv, at.token, d));
                }
                for (uint32_t d = 0; d < c.valueDim && !(ofPrior == 0); ++d)
                    o[d] += ofPrior / sum * static_cast<long double>(in.priorOut.get(span.batch, h, row, d));
                for (uint32_t d = 0; d < c.valueDim; ++d) compare(in.out.get(span.batch, h, row, d), o[d]);
                if (in.problem.flags & VKATTN_ROW_STATISTICS) {
                    compare(in.lse.get(span.batch, h, row, 0), top);
                    compare(in.lse.get(span.batch, h, row, 1), storedSum);
                } else if (c.lse)
                    compare(in.lse.get(span.batch, h, row, 0),
                            !(sum <= 0) ? top + std::log(sum) : -std::numeric_limits<long double>::infinity());
            }
    return worst;
}

} // namespace

TEST(Cpu, oracleEqualsTheFormulas) {
    Random random = randomFor("oracle");
    for (Case c : caseMatrix(random, true)) {
        if (c.headDim > 300 || !isTaken(c, random)) continue;
        c.out = c.weightsType = c.scoresType = VKATTN_F32;
        Random own = randomFor(c.name);
        const auto in = makeCaseData(c, own);
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnCpuOracle(&in->problem, in->operands.data(), count(*in), &why), VKATTN_OK) << c.name << why.message;
        EXPECT_LT(largestError(*in), 0x1p-23) << c.name; // the rounding of the stored result
    }
}

TEST(Cpu, visibleKeysAreThoseOfTheFormulas) {
    Random random = randomFor("visible");
    uint64_t shown = 0, hidden = 0;
    for (const Case &c : caseMatrix(random, true)) {
        Random own = randomFor(c.name);
        const auto in = makeCaseData(c, own);
        const uint32_t keys = mostKeys(in->problem);
        const uint32_t queries = in->problem.maxSeqQ ? in->problem.maxSeqQ : in->problem.q.extent[2];
        const Visible visible(*in);
        std::vector<unsigned char> seen(keys + 3);
        for (uint32_t b = 0; b < in->c.batch; ++b)
            for (uint32_t h = 0; h < c.heads; ++h)
                for (uint32_t i = 0; i < queries; ++i) {
                    std::fill(seen.begin(), seen.end(), static_cast<unsigned char>(0xa5));
                    vkattn_diagnostic why{};
                    ASSERT_EQ(vkattnCpuVisible(&in->problem, in->operands.data(), count(*in), b, h, i, seen.data(), keys + 2, &why),
                              VKATTN_OK)
                        << c.name << ": " << why.message;
                    for (uint32_t j = 0; j < keys + 2; ++j) {
                        const bool expected = visible(b, h, i, j);
                        ASSERT_EQ(seen[j], expected ? 1 : 0) << c.name << ", batch " << b << ", head " << h << ", " << i << ", " << j;
                        ++(expected ? shown : hidden);
                    }
                    ASSERT_EQ(seen[keys + 2], 0xa5) << c.name << ": wrote past the keys";
                }
    }
    EXPECT_GT(shown, 100000u);
    EXPECT_GT(hidden, 100000u);
}

TEST(Cpu, visibleRefusesWhatIsOutOfRange) {
    Case c;
    Random random = randomFor("visible range");
    const auto in = makeCaseData(c, random);
    std::vector<unsigned char> seen(c.keyTokens, 0xa5);
    const auto refused = [&](const std::string &expected, uint32_t b, uint32_t h, uint32_t i, unsigned char *to, uint32_t keys) {
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnCpuVisible(&in->problem, in->operands.data(), count(*in), b, h, i, to, keys, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused("batch " + std::to_string(c.batch), c.batch, 0, 0, seen.data(), c.keyTokens);
    refused("head " + std::to_string(c.heads), 0, c.heads, 0, seen.data(), c.keyTokens);
    refused("query " + std::to_string(c.queryTokens), 0, 0, c.queryTokens, seen.data(), c.keyTokens);
    refused("expected at least " + std::to_string(c.keyTokens), 0, 0, 0, seen.data(), c.keyTokens - 1);
    refused("visible is NULL", 0, 0, 0, nullptr, c.keyTokens);
    for (const unsigned char byte : seen) EXPECT_EQ(byte, 0xa5);
    auto operands = in->operands;
    operands.pop_back();
    EXPECT_EQ(
        vkattnCpuVisible(&in->problem, operands.data(), static_cast<uint32_t>(operands.size()), 0, 0, 0, seen.data(), c.keyTokens, nullptr),
        VKATTN_ERROR_INVALID_ARGUMENT);
}

// The whole matrix of options. The oracle's outputs, and the bytes that the oracle leaves alone,
// are checked in the same way.
TEST(Cpu, fallbackIsWithinTheBoundsAndIgnoresThreadCount) {
    Random random = randomFor("fallback");
    for (const Case &c : caseMatrix(random, true)) {
        if (!isTaken(c, random)) continue;
        Random own = randomFor(c.name);
        const auto in = makeCaseData(c, own);
        const Outputs before = in->outputs();
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnCpuRun(&in->problem, in->operands.data(), count(*in), 1, &why), VKATTN_OK) << c.name << ": " << why.message;
        const HostTensor single = in->out;
        EXPECT_EQ(in->damage(before), "") << c.name;
        ASSERT_EQ(vkattnCpuRun(&in->problem, in->operands.data(), count(*in), 3, nullptr), VKATTN_OK) << c.name;
        EXPECT_EQ(0, std::memcmp(single.data(), in->out.data(), single.bytes())) << c.name;
        const auto verified = [&](const char *by) {
            vkattn_verify_options options{};
            options.structSize = sizeof options;
            options.allRows = 1;
            vkattn_verify_report report{};
            ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), count(*in), &options, &report, nullptr), VKATTN_OK);
            EXPECT_TRUE(report.passed) << c.name << " by the " << by << ", role " << report.worstRole << ", error " << report.worstError
                                       << " bound " << report.worstBound;
            EXPECT_EQ(report.rowsChecked, report.rowsTotal);
        };
        verified("fallback");
        if (c.headDim > 300) continue;
        ASSERT_EQ(vkattnCpuOracle(&in->problem, in->operands.data(), count(*in), nullptr), VKATTN_OK);
        EXPECT_EQ(in->damage(before), "") << c.name << " by the oracle";
        verified("oracle");
    }
}

TEST(Cpu, verifierSeesDamageOfRowStatistics) {
    Case c;
    c.lse = c.rowStatistics = c.causal = true;
    c.keyTokens = c.queryTokens = 64;
    Random random = randomFor("damage of statistics");
    const auto in = makeCaseData(c, random);
    const auto passes = [&] {
        vkattn_verify_report report{};
        EXPECT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), count(*in), nullptr, &report, nullptr), VKATTN_OK);
        return report.passed != 0;
    };
    ASSERT_EQ(vkattnCpuOracle(&in->problem, in->operands.data(), count(*in), nullptr), VKATTN_OK);
    ASSERT_TRUE(passes());
    for (const uint32_t row : {0u, 40u, 63u}) {
        const float maximum = in->lse.get(1, 1, row, 0), sum = in->lse.get(1, 1, row, 1);
        const auto fails = [&](float first, float second) {
            in->lse.set(1, 1, row, 0, first);
            in->lse.set(1, 1, row, 1, second);
            EXPECT_FALSE(passes()) << row << ": " << first << " " << second << " instead of " << maximum << " " << sum;
            in->lse.set(1, 1, row, 0, maximum);
            in->lse.set(1, 1, row, 1, sum);
            ASSERT_TRUE(passes());
        };
        fails(maximum, sum * 1.001f);
        fails(maximum, sum * 0.999f);
        fails(maximum + 1e-3f, sum);
        if (sum > 1.01f) fails(maximum + std::log(sum), 1); // the log-sum-exp
        fails(maximum + 1, sum * std::exp(-1.0f));          // together right, and the maximum is none
        fails(maximum - 1, sum * std::exp(1.0f));
        fails(std::numeric_limits<float>::quiet_NaN(), sum);
        fails(maximum, std::numeric_limits<float>::infinity());
    }
}

// A verifier that accepts anything is no test: small damage of every kind must be seen.
TEST(Cpu, verifierSeesDamage) {
    Case c;
    c.lse = c.weights = true;
    c.causal = true;
    c.keyTokens = 64;
    c.queryTokens = 64;
    Random random = randomFor("damage");
    const auto in = makeCaseData(c, random);
    const auto passes = [&] {
        vkattn_verify_report report{};
        EXPECT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), count(*in), nullptr, &report, nullptr), VKATTN_OK);
        return report.passed != 0;
    };
    ASSERT_EQ(vkattnCpuOracle(&in->problem, in->operands.data(), count(*in), nullptr), VKATTN_OK);
    ASSERT_TRUE(passes());
    const auto spoil = [&](HostTensor &t, uint32_t row, uint32_t at, float value) {
        const float right = t.get(1, 1, row, at);
        t.set(1, 1, row, at, value);
        EXPECT_FALSE(passes()) << row << " " << at << " " << value << " instead of " << right;
        t.set(1, 1, row, at, right);
        ASSERT_TRUE(passes());
    };
    spoil(in->out, 40, 3, in->out.get(1, 1, 40, 3) + 1e-4f);
    spoil(in->out, 40, 3, std::numeric_limits<float>::quiet_NaN());
    spoil(in->out, 40, 3, std::numeric_limits<float>::infinity());
    spoil(in->lse, 5, 0, in->lse.get(1, 1, 5, 0) + 1e-3f);
    spoil(in->weights, 5, 6, 1e-30f); // hidden: exactly 0
    // Not by a share alone: of a small weight a thousandth is within the bound.
    spoil(in->weights, 63, 2, in->weights.get(1, 1, 63, 2) * 1.001f + 1e-5f);
    // One key of many left out, or one row computed for its neighbour.
    in->v.set(1, 1, 0, 5, in->v.get(1, 1, 0, 5) + 0.01f);
    EXPECT_FALSE(passes());
}

TEST(Cpu, verifierSamplesRowsAndAlwaysTheEdges) {
    Case c;
    c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 4000, c.keyTokens = 8, c.headDim = c.valueDim = 4;
    Random random = randomFor("sample");
    const auto in = makeCaseData(c, random);
    ASSERT_EQ(vkattnCpuRun(&in->problem, in->operands.data(), count(*in), 0, nullptr), VKATTN_OK);
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.rows = 10;
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), count(*in), &options, &report, nullptr), VKATTN_OK);
    EXPECT_TRUE(report.passed);
    EXPECT_GE(report.rowsChecked, 10u);
    EXPECT_LE(report.rowsChecked, 15u);
    in->out.set(0, 0, 3999, 0, 77);
    ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), count(*in), &options, &report, nullptr), VKATTN_OK);
    EXPECT_FALSE(report.passed);
    EXPECT_EQ(report.worstIndex[2], 3999u);
}

TEST(Cpu, nonFiniteInputReachesItsRowOnly) {
    Case c;
    c.batch = 1, c.poison = false, c.lse = true;
    Random random = randomFor("nonfinite");
    const auto in = makeCaseData(c, random);
    in->q.set(0, 1, 3, 2, std::numeric_limits<float>::infinity());
    in->q.set(0, 0, 5, 0, std::numeric_limits<float>::quiet_NaN());
    ASSERT_EQ(vkattnCpuOracle(&in->problem, in->operands.data(), count(*in), nullptr), VKATTN_OK);
    for (uint32_t h = 0; h < 2; ++h)
        for (uint32_t i = 0; i < c.queryTokens; ++i) {
            const bool touched = (h == 1 && i == 3) || (h == 0 && i == 5);
            EXPECT_EQ(std::isnan(in->out.get(0, h, i, 7)), touched) << h << " " << i;
            EXPECT_EQ(std::isnan(in->lse.get(0, h, i, 0)), touched) << h << " " << i;
        }
}

TEST(Cpu, badOperandsAreRefused) {
    Case c;
    Random random = randomFor("operands");
    const auto in = makeCaseData(c, random);
    const auto refused = [&](const std::string &expected, auto spoil) {
        auto operands = in->operands;
        spoil(operands);
        vkattn_diagnostic why{};
        for (const auto run : {vkattnCpuOracle, vkattnCpuCheckOperands})
            EXPECT_EQ(run(&in->problem, operands.data(), static_cast<uint32_t>(operands.size()), &why), VKATTN_ERROR_INVALID_ARGUMENT)
                << expected;
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused("out is missing", [](auto &o) { o.pop_back(); });
    refused("q is given twice", [](auto &o) { o.push_back(o[0]); });
    refused("which the problem does not use", [](auto &o) { o.push_back({VKATTN_LSE, o[0].data, o[0].bytes}); });
    refused("which the problem does not use", [](auto &o) { o.push_back({static_cast<vkattn_role>(99), o[0].data, o[0].bytes}); });
    refused("expected at least", [](auto &o) { o[1].bytes -= 1; });
    refused("v has no data", [](auto &o) { o[2].data = nullptr; });
    refused("not aligned", [](auto &o) { o[0].data = static_cast<unsigned char *>(o[0].data) - 1; });
}
