// The verifier of gradients sees planted errors, and lets honest rounding pass.
#include "double_forward.hpp"
#include "support/seed.hpp"

#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// An element of a gradient that the call writes.
Element drawElement(const GradientCase &g, Random &random) {
    std::vector<vkattn_role> roles;
    for (const auto &[role, t] : g.tensors)
        if (!isGradientInput(role)) roles.push_back(role);
    std::map<vkattn_role, std::array<uint32_t, 4>> arrays;
    for (const auto &[role, array] : g.arrays) {
        roles.push_back(role);
        arrays[role] = {1, 1, 1, static_cast<uint32_t>(array.size())};
    }
    return test::drawElement(
        random, roles, [&](vkattn_role role) { return arrays.count(role) ? arrays.at(role).data() : g.tensors.at(role).layout.extent; },
        [&](const Element &e) {
            if (arrays.count(e.role) || e.role == VKATTN_D_BIAS) return true;
            return e.role == VKATTN_D_Q ? g.data->isQuery(e.at[0], e.at[2]) : g.data->isKey(e.at[0], e.at[2]);
        });
}

float get(GradientCase &g, const Element &e) {
    return g.arrays.count(e.role) ? g.arrays.at(e.role)[e.at[3]] : g.tensors.at(e.role).get(e.at[0], e.at[1], e.at[2], e.at[3]);
}
void set(GradientCase &g, const Element &e, float value) {
    if (g.arrays.count(e.role))
        g.arrays.at(e.role)[e.at[3]] = value;
    else
        g.tensors.at(e.role).set(e.at[0], e.at[1], e.at[2], e.at[3], value);
}

// The query rows whose terms an element of dBias sums up, each with a size of about 1; 1 for other gradients.
double rowsOf(const GradientCase &g, vkattn_role role) {
    if (role != VKATTN_D_BIAS) return 1;
    const uint32_t *of = g.tensors.at(role).layout.extent;
    const Case &c = g.data->c;
    return (of[0] == 1 ? c.batch : 1.0) * (of[1] == 1 ? c.heads : 1.0) * (of[2] == 1 ? c.queryTokens : 1.0);
}

// The bound of an element: what the verifier says of an error that is surely wrong.
double boundOf(GradientCase &g, GradientCase &before, const Element &e) {
    const float right = get(g, e);
    set(g, e, std::numeric_limits<float>::quiet_NaN());
    vkattn_verify_report report{};
    EXPECT_NE(g.wrong(before, 0, 0, &report), "") << g.text();
    EXPECT_FALSE(report.passed) << g.text();
    EXPECT_EQ(report.worstRole, e.role) << g.text();
    set(g, e, right);
    return report.worstBound;
}

} // namespace

TEST(VerifyGradient, seesOneWrongElement) {
    Random random = randomFor("gradient element");
    int seen = 0;
    for (int n = 0; n < 150; ++n) {
        GradientOptions options;
        options.everything = n % 2;
        GradientCase g = drawWhole(random, options);
        run(g, 1);
        GradientCase before = g;
        const Element e = drawElement(g, random);
        if (e.role == VKATTN_ROLE_LIMIT) continue;
        const float right = get(g, e);
        const double bound = boundOf(g, before, e);
        // Three bounds away, as the type can say it.
        const double wrong = static_cast<double>(right) + (n % 4 < 2 ? 3 : -3) * std::max(bound, 1e-6);
        set(g, e, static_cast<float>(wrong));
        vkattn_verify_report report{};
        const std::string said = g.wrong(before, 0, 0, &report);
        EXPECT_FALSE(report.passed) << "role " << e.role << " right " << right << " bound " << bound << " " << g.text();
        EXPECT_EQ(report.worstRole, e.role) << said;
        // In a ragged batch the verifier counts from the start of a sequence.
        for (int d = 0; d < 4 && !report.passed && !g.data->c.ragged; ++d) EXPECT_EQ(report.worstIndex[d], e.at[d]) << said;
        // The bound is a small part of what is there: of the result, and of what it sums up, which may cancel out. Where
        // ALiBi multiplies a distance of 2^28 tokens, fp32 does not know which key is the largest.
        const bool known = !(g.data->c.alibi && g.data->c.hostileOffsets);
        if (g.tensors.count(e.role) && options.everything && std::abs(right) > 1e-3f && known) {
            EXPECT_LT(bound, 0.02 * (rowsOf(g, e.role) + std::abs(static_cast<double>(right))))
                << "role " << e.role << " " << right << " " << g.text();
            ++seen;
        }
    }
    EXPECT_GT(seen, 20);
}

TEST(VerifyGradient, letsHonestRoundingOfLargeNumbersPass) {
    Random random = randomFor("gradient large");
    for (int n = 0; n < 160; ++n) {
        GradientOptions options;
        options.dropout = false;
        GradientCase g = drawGradient(random, drawLargeNumbers(random, n), options);
        // Scores of -1e9 in fp32 are all the same: P_ij adds up to 1 with the statistics of fp32 alone.
        vkattn_diagnostic why{};
        g.data->collectOperands();
        ASSERT_EQ(vkattnCpuRun(&g.data->problem, g.data->operands.data(), static_cast<uint32_t>(g.data->operands.size()), 1, &why),
                  VKATTN_OK)
            << why.message;
        GradientCase before = g;
        run(g, 1);
        EXPECT_EQ(g.wrong(before), "") << n << " " << g.text();
    }
}

TEST(VerifyGradient, looksAtTheWordOfValuesThatAreNotFinite) {
    Random random = randomFor("gradient overflow");
    Case c;
    c.lse = true;
    for (int n = 0; n < 20; ++n) {
        GradientOptions options;
        options.everything = true;
        options.dropout = false;
        GradientCase g = drawWhole(random, c, options);
        g.gradient.presentRoles |= VKATTN_PRESENT(VKATTN_NONFINITE);
        const bool overflows = n % 2;
        if (overflows) {
            g.gradient.dQ.dtype = g.tensors.at(VKATTN_D_Q).layout.dtype = VKATTN_F16;
            g.gradient.lossScale = 1e-9f;
        }
        for (const bool oracle : {false, true}) {
            GradientCase after = g, before = g;
            after.nonfinite = before.nonfinite = 0;
            if (oracle)
                runOracle(after);
            else
                run(after, 1);
            EXPECT_EQ(after.nonfinite, overflows ? 1u : 0u) << after.text();
            EXPECT_EQ(after.wrong(before), "") << after.text();
            after.nonfinite = 0;
            EXPECT_EQ(after.wrong(before).empty(), !overflows) << after.text();
            after.nonfinite = 1; // stays as it was
            if (!overflows) {
                run(after, 1);
                EXPECT_EQ(after.nonfinite, 1u);
            }
        }
    }
}

TEST(VerifyGradient, checksSomeHeadsOfLargeProblems) {
    Random random = randomFor("gradient heads");
    Case c;
    c.batch = 3, c.heads = c.kvHeads = 4;
    GradientCase g = drawWhole(random, c, {0, false, false});
    g.gradient.presentRoles = 0;
    g.arrays.clear();
    if (!g.has(VKATTN_D_Q)) {
        g.gradient.dQ = g.data->problem.q;
        const vkattn_operation o = g.operation();
        g.tensors[VKATTN_D_Q].make(g.gradient.dQ, vkattnOperationBytes(&o, VKATTN_D_Q), 0);
    }
    run(g, 1);
    vkattn_verify_options options{};
    options.rows = 50;
    const vkattn_verify_report report = verified(g, options);
    EXPECT_TRUE(report.passed);
    EXPECT_EQ(report.rowsTotal, 3u * 4 * 17);
    EXPECT_EQ(report.rowsChecked, 3u * 17); // the first head, the last and another
    g.tensors.at(VKATTN_D_Q).set(2, 3, 16, 0, 1e6f);
    EXPECT_FALSE(verified(g, options).passed);
}
