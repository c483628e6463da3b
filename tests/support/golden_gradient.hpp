// Two backward passes whose numbers were computed apart from this project, from the formulas of
// vkattn/gradient.h.
#pragma once

#include "vkattn/cpu.h"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <vector>

namespace vkattn::test {

// Two heads that share a key head, two queries, three keys, two dims, causal. `options`: with softcap,
// ALiBi slopes, sinks and dropout.
struct GoldenGradient {
    explicit GoldenGradient(bool options) {
        p = problem(packed(VKATTN_F32, 1, 2, 2, 2), packed(VKATTN_F32, 1, 1, 3, 2), packed(VKATTN_F32, 1, 1, 3, 2),
                    packed(VKATTN_F32, 1, 2, 2, 2));
        p.flags = VKATTN_CAUSAL | VKATTN_SCALE | VKATTN_ROW_STATISTICS;
        p.scale = 0.5f;
        p.lse = p.q;
        p.presentRoles = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
        g = attentionGradient(p, p.q);
        g.dQ = p.q;
        g.dK = g.dV = p.k;
        g.presentRoles = VKATTN_PRESENT(VKATTN_D_SLOPES);
        if (!options) {
            out = {-.6378650f, .1621350f, .0235042f, .8235042f, -.6511795f, .1488205f, .1314385f, .9314385f};
            setLse({.6492625f, 1.5194163f, .7834965f, 1.2916179f});
            slopes = {0, 0};
            return;
        }
        p.softcap = 1.5f;
        p.dropout = 0.5;
        p.dropoutSeed = 42;
        p.dropoutOffset = 7;
        slopes = {.25f, -.5f};
        sinks = {.3f, -1};
        p.presentRoles |= VKATTN_PRESENT(VKATTN_SINKS);
        g.presentRoles |= VKATTN_PRESENT(VKATTN_D_SINKS);
        out = {0, 0, .2934372f, 1.1433636f, 0, 0, .4252872f, 1.1057468f};
        setLse({1.1366070f, 1.4160793f, 1.1123959f, 1.6462315f});
    }
    GoldenGradient(const GoldenGradient &) = delete; // the description points at the problem
    GoldenGradient &operator=(const GoldenGradient &) = delete;

    [[nodiscard]] vkattn_operation operation() const { return vkattn::operation(g); }
    [[nodiscard]] std::vector<vkattn_operand_memory> memory() {
        std::vector<vkattn_operand_memory> all;
        const auto add = [&](vkattn_role role, std::vector<float> &values) { all.push_back({role, values.data(), 4 * values.size()}); };
        add(VKATTN_Q, q), add(VKATTN_K, k), add(VKATTN_V, v), add(VKATTN_OUT, out), add(VKATTN_LSE, statistics);
        add(VKATTN_ALIBI_SLOPES, slopes), add(VKATTN_D_OUT, dOut);
        add(VKATTN_D_Q, dQ), add(VKATTN_D_K, dK), add(VKATTN_D_V, dV), add(VKATTN_D_SLOPES, dSlopes);
        if (!sinks.empty()) add(VKATTN_SINKS, sinks), add(VKATTN_D_SINKS, dSinks);
        return all;
    }
    void expectResults() const {
        const bool options = !sinks.empty();
        if (!options) {
            expectNear(dQ, {-.2323240, .2859373, .0921262, -.2760610, -.1146080, .1410561, .0458573, .0497875}, "dQ");
            expectNear(dK, {.2204245, -.2607747, -.3409668, .2873355, .1205423, -.0265608}, "dK");
            expectNear(dV, {-.0469525, .8123713, -.8200013, -.0820913, .6669538, -.6302799}, "dV");
            expectNear(dSlopes, {.2156889, .1057704}, "dSlopes");
            return;
        }
        expectNear(dQ, {0, 0, .0166840, -.2637779, 0, 0, .3849021, .1064949}, "dQ");
        expectNear(dK, {.0543842, -.1626033, -.2980907, .0423120, .4375103, -.0146793}, "dK");
        expectNear(dV, {.4755335, 1.1095782, 0, 0, .9274283, -.6428963}, "dV");
        expectNear(dSlopes, {-.7502378, -.7259655}, "dSlopes");
        expectNear(dSinks, {-.5820020, .0669563}, "dSinks");
    }

    vkattn_problem p{};
    vkattn_attention_gradient g{};
    std::vector<float> q = drawn(0, 8), k = drawn(100, 6), v = drawn(200, 6), dOut = drawn(300, 8);
    std::vector<float> out, statistics, slopes, sinks;
    std::vector<float> dQ = std::vector<float>(8), dK = std::vector<float>(6), dV = std::vector<float>(6);
    std::vector<float> dSlopes = std::vector<float>(2), dSinks = std::vector<float>(2);

  private:
    static std::vector<float> drawn(int first, int count) {
        std::vector<float> values;
        for (int n = first; n < first + count; ++n) values.push_back(static_cast<float>((37 * n + 11) % 29 - 14) / 10);
        return values;
    }
    // The statistics with the log-sum-exp that the case gives: as a maximum, with a sum of 1.
    void setLse(const std::vector<float> &lse) {
        for (const float x : lse) {
            statistics.push_back(x);
            statistics.push_back(1);
        }
    }
    static void expectNear(const std::vector<float> &got, const std::vector<double> &expected, const char *name) {
        ASSERT_EQ(got.size(), expected.size());
        for (size_t n = 0; n < got.size(); ++n) EXPECT_NEAR(static_cast<double>(got[n]), expected[n], 1.5e-6) << name << " " << n;
    }
};

} // namespace vkattn::test
