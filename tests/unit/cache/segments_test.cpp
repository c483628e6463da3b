// Keys in segments on the CPU, and problems that go on from attention over other keys.
#include "conform/cases/base_case.hpp"
#include "conform/cases/case_text.hpp"
#include "support/extent.hpp"
#include "support/keys/segments.hpp"
#include "support/seed.hpp"
#include "unit/cpu/cpu_runs.hpp"

#include <vkattn/operations.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

namespace {

std::string computed(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands, uint32_t threads = 2) {
    vkattn_diagnostic why{};
    return vkattnCpuRun(&problem, operands.data(), static_cast<uint32_t>(operands.size()), threads, &why) == VKATTN_OK ? "" : why.message;
}

void expectVerified(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands, const std::string &text) {
    const vkattn_verify_report report = verifiedOnCpu(operation(problem), operands, text);
    ASSERT_TRUE(report.passed) << text << ": role " << report.worstRole << " " << report.worstGot << ", expected " << report.worstExpected
                               << ", bound " << report.worstBound;
}

bool sameBytes(const HostTensor &a, const HostTensor &b) {
    return a.bytes() == b.bytes() && (a.layout.extent[0] == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// Few rows, with dims in lanes.
void makeFewRows(Case &c, Random &random) {
    c.queryTokens = 1, c.headDim = c.valueDim = 32, c.keyTokens = between(random, 2, 400), c.kStyle = c.vStyle = Style::packed;
    c.softcap = 0, c.dropout = 0, c.alibi = c.weights = false, c.maskBroadcast.reset(), c.bitMaskBroadcast.reset(), c.biasBroadcast.reset();
    c.documents = Documents::none, c.blocks = Blocks::none, c.grid = Grid::none, c.hooks = Hooks::none, c.dilation = 0,
    c.globalTokens = false;
    c.scores.reset();
}

TEST(Segments, haveTheBitsOfTheirConcatenation) {
    Random random = randomFor("segments");
    const Draws draws{100, 500};
    for (int n = 0; draws.take(n); ++n) {
        Case c = drawSegments(random, 3);
        if (n % 4 == 0) makeFewRows(c, random);
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        ASSERT_NE(data->problem.k1.extent[2], 0u) << caseText(c);
        ASSERT_EQ(computed(data->problem, data->operands), "") << caseText(c);
        expectVerified(data->problem, data->operands, caseText(c));
        const Outputs inSegments = data->outputs();
        const WholeProblem whole(*data);
        ASSERT_EQ(computed(whole.problem, whole.operands), "") << caseText(c);
        EXPECT_TRUE(sameBytes(inSegments.out, data->out) && sameBytes(inSegments.lse, data->lse) &&
                    sameBytes(inSegments.weights, data->weights) && sameBytes(inSegments.scores, data->scores))
            << caseText(c);
        // The verifier reads segments by the oracle alone; here there are none.
        expectVerified(whole.problem, whole.operands, caseText(c));
    }
}

TEST(Segments, seeOneSpoiltElementOfEach) {
    Random random = randomFor("segment elements");
    Case c;
    c.segments = 3, c.keyTokens = 40, c.queryTokens = 3, c.lse = true;
    const std::unique_ptr<CaseData> data = makeCaseData(c, random);
    for (HostTensor &segment : data->segments) {
        ASSERT_EQ(computed(data->problem, data->operands), "");
        const Outputs before = data->outputs();
        const float was = segment.get(1, 1, 0, 3);
        segment.set(1, 1, 0, 3, was + 4);
        ASSERT_EQ(computed(data->problem, data->operands), "");
        EXPECT_FALSE(sameBytes(before.out, data->out));
        expectVerified(data->problem, data->operands, "spoilt");
        segment.set(1, 1, 0, 3, was);
    }
}

TEST(Prior, isVerified) {
    Random random = randomFor("prior");
    const Draws draws{100, 500};
    for (int n = 0; draws.take(n); ++n) {
        Case c = randomCase(random, 3);
        c.dropout = 0, c.rowStatistics = false, c.hooks = withSums(c.hooks);
        c.prior = true, c.priorType = static_cast<vkattn_dtype>(n % 3);
        if (n % 5 == 0) c.batch = 1, c.heads = c.kvHeads = 2, c.queryTokens = 1, c.keyTokens = 3000; // splits
        makeAgree(c);
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        const Outputs before = data->outputs();
        ASSERT_EQ(computed(data->problem, data->operands), "") << caseText(c);
        expectVerified(data->problem, data->operands, caseText(c));
        EXPECT_EQ(data->damage(before), "") << caseText(c);
    }
}

TEST(Prior, partsMakeTheWhole) {
    Random random = randomFor("parts");
    const Draws draws{40, 200};
    for (int n = 0; draws.take(n); ++n) {
        Case c = baseCase(random, "parts");
        c.lse = true, c.keyTokens = between(random, 1, 200);
        c.causal = n % 2, c.topLeft = n % 4 == 1, c.window = n % 3 == 0, c.left = 20, c.right = 7;
        if (n % 5 == 0) c.queryTokens = 1, c.headDim = c.valueDim = 32;
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        const auto compute = [&](const vkattn_problem &p, const std::vector<vkattn_operand_memory> &operands) {
            return computed(p, operands);
        };
        ASSERT_EQ(computeInParts(*data, 8, compute), "") << caseText(c);
        expectVerified(data->problem, data->operands, caseText(c)); // with all keys at once
    }
}

// What rows make of what they go on from, where that is no ordinary number.
TEST(Prior, ofNothingAndOfNoNumber) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    Random random = randomFor("prior rows");
    Case c;
    c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 6, c.keyTokens = 9, c.lse = true;
    c.causal = c.offsets = true, c.queryOffset = {-3}; // the first three rows see nothing
    c.prior = true, c.poison = false;
    const std::unique_ptr<CaseData> data = makeCaseData(c, random);
    const float lses[] = {-infinity, 2.5f, nan, -infinity, 2.5f, infinity};
    for (uint32_t i = 0; i < 6; ++i) {
        data->priorLse.set(0, 0, i, 0, lses[i]);
        for (uint32_t d = 0; d < c.valueDim; ++d)
            data->priorOut.set(0, 0, i, d, lses[i] == -infinity ? nan : static_cast<float>(i + d) - 7);
    }
    data->collectOperands();
    for (const bool oracle : {false, true}) {
        vkattn_diagnostic why{};
        const auto count = static_cast<uint32_t>(data->operands.size());
        ASSERT_EQ(oracle ? vkattnCpuOracle(&data->problem, data->operands.data(), count, &why)
                         : vkattnCpuRun(&data->problem, data->operands.data(), count, 1, &why),
                  VKATTN_OK)
            << why.message;
        for (uint32_t d = 0; d < c.valueDim; ++d) {
            EXPECT_EQ(data->out.get(0, 0, 0, d), 0.0f);
            EXPECT_EQ(data->out.get(0, 0, 1, d), static_cast<float>(1 + d) - 7);
            EXPECT_TRUE(std::isnan(data->out.get(0, 0, 2, d)));
            EXPECT_TRUE(std::isfinite(data->out.get(0, 0, 3, d)));
            EXPECT_TRUE(std::isfinite(data->out.get(0, 0, 4, d)));
            EXPECT_TRUE(std::isnan(data->out.get(0, 0, 5, d)));
        }
        EXPECT_EQ(data->lse.get(0, 0, 0, 0), -infinity);
        EXPECT_EQ(data->lse.get(0, 0, 1, 0), 2.5f);
        for (const uint32_t i : {2u, 5u}) EXPECT_TRUE(std::isnan(data->lse.get(0, 0, i, 0)));
        EXPECT_GT(data->lse.get(0, 0, 4, 0), 2.5f);
        expectVerified(data->problem, data->operands, "rows");
    }
}

// An element that is wrong by a few bounds is seen, whatever share the earlier keys have.
TEST(Prior, oneWrongElementIsSeen) {
    Random random = randomFor("prior element");
    Case c;
    c.prior = c.lse = true;
    const std::unique_ptr<CaseData> data = makeCaseData(c, random);
    ASSERT_EQ(computed(data->problem, data->operands), "");
    for (int n = 0; n < 20; ++n) {
        const uint32_t at[] = {between(random, 0, c.batch - 1), between(random, 0, c.heads - 1), between(random, 0, c.queryTokens - 1),
                               between(random, 0, c.valueDim - 1)};
        const float right = data->out.get(at[0], at[1], at[2], at[3]);
        data->out.set(at[0], at[1], at[2], at[3], right + 0.001f);
        EXPECT_FALSE(verifiedOnCpu(operation(data->problem), data->operands, "wrong").passed);
        data->out.set(at[0], at[1], at[2], at[3], right);
    }
}

} // namespace
