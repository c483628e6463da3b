// What must hold of linear attention whatever computes it: golden numbers, parts and the whole, decode, features and
// the softmax that they estimate.
#include "small_scan.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// ((37 k + 11) mod 29 - 14) / 10, as the golden cases of attention have it.
void fillGolden(std::vector<float> &to, int start) {
    for (float &each : to) each = static_cast<float>((37 * start++ + 11) % 29 - 14) / 10.0f;
}

SmallScan golden(bool causal) {
    SmallScan c(VKATTN_LINEAR_FEATURES, 1, 3, 2, 2);
    c.linear.features = VKATTN_FEATURES_FAVOR;
    c.linear.flags = VKATTN_SCALE | (causal ? uint32_t{VKATTN_CAUSAL} : 0);
    c.linear.scale = 0.5f;
    fillGolden(c.add(VKATTN_OMEGA, 1, 1, 4, 2), 400);
    fillGolden(c.add(VKATTN_Q, 1, 1, 2, 2), 500);
    c.add(VKATTN_OUT, 1, 1, 2, 2);
    fillGolden(c[VKATTN_K], 600);
    fillGolden(c[VKATTN_V], 700);
    return c;
}

// Relative to the largest number, where that is above 1.
double largestDifference(const std::vector<float> &a, const std::vector<float> &b) {
    double most = 0, size = 1;
    for (size_t n = 0; n < a.size(); ++n) {
        most = std::max(most, static_cast<double>(std::abs(a[n] - b[n])));
        size = std::max(size, static_cast<double>(std::abs(b[n])));
    }
    return most / size;
}

// Every rule and feature map, with states.
std::vector<SmallScan> everyKind(Random &random, uint32_t tokens) {
    std::vector<SmallScan> all;
    for (int kind = 0; kind < 9; ++kind) {
        SmallScan c(kind < 4 ? VKATTN_LINEAR_FEATURES : static_cast<vkattn_linear_rule>(std::min(kind - 3, 4)), 2, tokens, 8, 5);
        if (kind < 4) c.linear.features = static_cast<vkattn_feature_map>(kind), c.linear.flags = VKATTN_CAUSAL;
        if (kind == 2 || kind == 3) c.add(VKATTN_OMEGA, 1, 1, 12, 8);
        if (kind == 8) c.add(VKATTN_DECAY, 1, 2, tokens, 8);
        c.addStates();
        c.draw(random, 0.4f);
        all.push_back(c);
    }
    return all;
}

} // namespace

TEST(LinearGolden, areTheCpusResults) {
    for (const bool causal : {false, true})
        for (int how = 0; how < 3; ++how) {
            SmallScan c = golden(causal);
            c.linear.form = how == 1 ? VKATTN_LINEAR_FORM_RECURRENT : VKATTN_LINEAR_FORM_CHUNKED;
            how == 2 ? c.runOracle() : c.run();
            EXPECT_EQ(c.wrong(), "");
            const std::vector<float> expected = causal ? std::vector<float>{-.6045286f, .1954714f, -.1603465f, .6396535f}
                                                       : std::vector<float>{-.3707636f, .4292364f, -.1603465f, .6396535f};
            EXPECT_LT(largestDifference(c[VKATTN_OUT], expected), 2e-6) << how << " " << causal;
        }
}

TEST(LinearScan, goesOnWhereItHasEnded) {
    Random random = randomFor("parts of a scan");
    for (const uint32_t tokens : {2u, 63u, 65u, 130u})
        for (SmallScan &c : everyKind(random, tokens)) {
            SmallScan whole = c;
            whole.run();
            EXPECT_EQ(whole.wrong(), "");
            const uint32_t half = std::max(tokens / 2, 1u);
            SmallScan first = c.part(0, half, nullptr);
            first.run();
            SmallScan second = c.part(half, tokens - half, &first);
            second.run();
            EXPECT_EQ(second.wrong(), "");
            EXPECT_LT(largestDifference(second[VKATTN_STATE_OUT], whole[VKATTN_STATE_OUT]), 2e-5) << c.linear.rule << " " << tokens;
            EXPECT_LT(largestDifference(second[VKATTN_OUT], whole.part(half, tokens - half, nullptr)[VKATTN_OUT]), 2e-5) << c.linear.rule;
        }
}

// The state is the cache: one call a token, each in the memory of the state.
TEST(LinearScan, decodesTokenByToken) {
    Random random = randomFor("decode by state");
    constexpr uint32_t tokens = 20;
    for (SmallScan &c : everyKind(random, tokens)) {
        SmallScan whole = c;
        whole.linear.form = VKATTN_LINEAR_FORM_CHUNKED;
        whole.run();
        std::vector<float> state(c[VKATTN_STATE_IN].size());
        for (uint32_t t = 0; t < tokens; ++t) {
            SmallScan token = c.part(t, 1, nullptr);
            std::vector<vkattn_operand_memory> memory = token.memory();
            for (vkattn_operand_memory &each : memory)
                if (each.role == VKATTN_STATE_IN || each.role == VKATTN_STATE_OUT) each.data = state.data();
            runOnCpu(token.operation(), memory, 0, "a token");
            EXPECT_LT(largestDifference(token[VKATTN_OUT], whole.part(t, 1, nullptr)[VKATTN_OUT]), 2e-5) << c.linear.rule << " token " << t;
        }
        EXPECT_LT(largestDifference(state, whole[VKATTN_STATE_OUT]), 2e-5);
    }
}

TEST(LinearScan, agreesInBothForms) {
    Random random = randomFor("both forms");
    for (SmallScan &c : everyKind(random, 100)) {
        SmallScan recurrent = c, chunked = c;
        recurrent.linear.form = VKATTN_LINEAR_FORM_RECURRENT;
        chunked.linear.form = VKATTN_LINEAR_FORM_CHUNKED;
        recurrent.run();
        chunked.run();
        EXPECT_LT(largestDifference(recurrent[VKATTN_OUT], chunked[VKATTN_OUT]), 2e-5) << c.linear.rule << " " << c.linear.features;
        EXPECT_LT(largestDifference(recurrent[VKATTN_STATE_OUT], chunked[VKATTN_STATE_OUT]), 2e-5);
    }
}

TEST(LinearScan, keepsSnapshotsOfItsState) {
    Random random = randomFor("snapshots");
    for (SmallScan &c : everyKind(random, 50)) {
        c.linear.snapshotTokens = 20;
        c.add(VKATTN_SNAPSHOTS, 1, 2, 2 * c.stateRows(), c.stateColumns());
        c.run();
        EXPECT_EQ(c.wrong(), "");
        SmallScan first = c.part(0, 40, nullptr);
        first.add(VKATTN_SNAPSHOTS, 1, 2, 2 * c.stateRows(), c.stateColumns());
        first.run();
        const size_t state = size_t{c.stateRows()} * c.stateColumns();
        for (size_t h = 0; h < 2; ++h)
            for (size_t n = 0; n < state; ++n)
                ASSERT_NEAR(c[VKATTN_SNAPSHOTS][(2 * h + 1) * state + n], first[VKATTN_STATE_OUT][h * state + n], 2e-5);
    }
}

// A decay of -infinity forgets all that came before; one of 0 forgets nothing.
TEST(LinearScan, forgetsByDecay) {
    Random random = randomFor("forgetting");
    for (const vkattn_linear_rule rule : {VKATTN_LINEAR_GATED, VKATTN_LINEAR_GATED_DELTA})
        for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED}) {
            SmallScan c(rule, 1, 40, 4, 3);
            c.linear.form = form;
            c.draw(random, 0.4f);
            c[VKATTN_DECAY][25] = -std::numeric_limits<float>::infinity();
            SmallScan after = c.part(25, 15, nullptr);
            c.run();
            after.run();
            EXPECT_EQ(c.wrong(), "");
            EXPECT_LT(largestDifference(c.part(25, 15, nullptr)[VKATTN_OUT], after[VKATTN_OUT]), 1e-6);

            SmallScan still = c, plain(rule == VKATTN_LINEAR_GATED ? VKATTN_LINEAR_PLAIN : VKATTN_LINEAR_DELTA, 1, 40, 4, 3);
            std::fill(still[VKATTN_DECAY].begin(), still[VKATTN_DECAY].end(), 0.0f);
            plain.linear.form = form;
            for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V}) plain[role] = still[role];
            if (plain.linear.writeStrength.extent[0]) plain[VKATTN_WRITE_STRENGTH] = still[VKATTN_WRITE_STRENGTH];
            still.run();
            plain.run();
            EXPECT_EQ(still[VKATTN_OUT], plain[VKATTN_OUT]);
        }
}

// A NaN in one dim of a query is its row's alone; in one dim of a key it is that of the rows from its token on.
TEST(LinearScan, keepsNanWhereItBelongs) {
    Random random = randomFor("NaN in a key or a query");
    constexpr uint32_t tokens = 24, token = 5, values = 5;
    for (SmallScan &c : everyKind(random, tokens))
        for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED})
            for (const vkattn_role role : {VKATTN_Q, VKATTN_K}) {
                SmallScan clean = c;
                clean.linear.form = form;
                SmallScan spoiled = clean;
                spoiled[role][token * c.linear.k.extent[3] + 2] = std::nanf("");
                clean.run();
                spoiled.run();
                EXPECT_EQ(spoiled.wrong(), "");
                for (uint32_t row = 0; row < 2 * tokens; ++row) { // of both heads
                    const bool reached = role == VKATTN_Q ? row == token : row >= token && row < tokens;
                    for (uint32_t d = 0; d < values; ++d) {
                        const size_t at = size_t{row} * values + d;
                        if (reached)
                            ASSERT_TRUE(std::isnan(spoiled[VKATTN_OUT][at])) << c.linear.rule << " " << c.linear.features << " row " << row;
                        else
                            ASSERT_EQ(spoiled[VKATTN_OUT][at], clean[VKATTN_OUT][at]) << c.linear.rule << " row " << row;
                    }
                }
            }
}

// Without features' keys, a row is 0: of no key, and of no state.
TEST(LinearScan, givesZeroWhereNothingIsSeen) {
    SmallScan c(VKATTN_LINEAR_FEATURES, 1, 3, 2, 2);
    c.linear.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    c.lengths = {0};
    for (const uint32_t flags : {uint32_t{0}, uint32_t{VKATTN_CAUSAL}, uint32_t{VKATTN_ALIGN_TOP_LEFT}}) {
        c.linear.flags = flags;
        for (const vkattn_role role : {VKATTN_K, VKATTN_V}) std::fill(c[role].begin(), c[role].end(), std::nanf(""));
        std::fill(c[VKATTN_OUT].begin(), c[VKATTN_OUT].end(), 7.0f);
        c.run();
        EXPECT_EQ(c[VKATTN_OUT], std::vector<float>(6, 0.0f));
        EXPECT_EQ(c.wrong(), "");
    }
}

// k and v of fewer heads, and q of fewer heads than the state: by division and modulo.
TEST(LinearScan, sharesHeadsByDivisionOrModulo) {
    Random random = randomFor("shared heads");
    constexpr uint32_t tokens = 9, dims = 4, values = 3;
    for (const bool modulo : {false, true}) {
        SmallScan shared(VKATTN_LINEAR_PLAIN, 4, tokens, dims, values);
        shared.linear.headMapping = modulo ? VKATTN_HEADS_MODULO : VKATTN_HEADS_DIVIDED;
        shared.add(VKATTN_Q, 1, 2, tokens, dims);
        shared.add(VKATTN_K, 1, 2, tokens, dims);
        shared.draw(random);
        shared.run();
        for (uint32_t h = 0; h < 4; ++h) {
            SmallScan one(VKATTN_LINEAR_PLAIN, 1, tokens, dims, values);
            const size_t from = size_t{modulo ? h % 2 : h / 2} * tokens * dims;
            for (size_t n = 0; n < size_t{tokens} * dims; ++n)
                one[VKATTN_Q][n] = shared[VKATTN_Q][from + n], one[VKATTN_K][n] = shared[VKATTN_K][from + n];
            std::copy_n(shared[VKATTN_V].begin() + h * tokens * values, tokens * values, one[VKATTN_V].begin());
            one.run();
            EXPECT_TRUE(std::equal(one[VKATTN_OUT].begin(), one[VKATTN_OUT].end(), shared[VKATTN_OUT].begin() + h * tokens * values)) << h;
        }
    }
}

// Heads of shared keys with features of their own are those of keys of their own.
TEST(LinearScan, givesSharedKeysFeaturesOfTheirOwn) {
    Random random = randomFor("features of shared keys");
    constexpr uint32_t heads = 4, tokens = 21, dims = 4, values = 3, m = 6;
    for (const bool modulo : {false, true})
        for (const vkattn_feature_map features : {VKATTN_FEATURES_RELU, VKATTN_FEATURES_FAVOR, VKATTN_FEATURES_FAVOR2}) {
            SmallScan shared(VKATTN_LINEAR_FEATURES, heads, tokens, dims, values);
            shared.linear.features = features;
            shared.linear.flags = VKATTN_CAUSAL;
            shared.linear.headMapping = modulo ? VKATTN_HEADS_MODULO : VKATTN_HEADS_DIVIDED;
            shared.add(VKATTN_K, 1, 1, tokens, dims);
            shared.add(VKATTN_V, 1, 2, tokens, values);
            shared.add(VKATTN_OMEGA, 1, heads, m, dims);
            shared.addStates();
            shared.draw(random);
            SmallScan own(VKATTN_LINEAR_FEATURES, heads, tokens, dims, values);
            own.linear.features = features;
            own.linear.flags = VKATTN_CAUSAL;
            own[VKATTN_Q] = shared[VKATTN_Q];
            own.add(VKATTN_OMEGA, 1, heads, m, dims) = shared[VKATTN_OMEGA];
            own.addStates();
            for (uint32_t h = 0; h < heads; ++h) {
                std::copy_n(shared[VKATTN_K].begin(), tokens * dims, own[VKATTN_K].begin() + h * tokens * dims);
                std::copy_n(shared[VKATTN_V].begin() + (modulo ? h % 2 : h / 2) * tokens * values, tokens * values,
                            own[VKATTN_V].begin() + h * tokens * values);
            }
            shared.run();
            own.run();
            EXPECT_EQ(shared[VKATTN_OUT], own[VKATTN_OUT]);
            EXPECT_EQ(shared[VKATTN_STATE_OUT], own[VKATTN_STATE_OUT]);
            EXPECT_EQ(shared.wrong(), "");
        }
}

// The first rows of a causal problem see keys that a maximum over all keys would make 0.
TEST(LinearScan, keepsRowsWhoseKeysAreSmall) {
    SmallScan c(VKATTN_LINEAR_FEATURES, 1, 40, 2, 1);
    c.linear.features = VKATTN_FEATURES_FAVOR;
    c.linear.flags = VKATTN_CAUSAL;
    c.add(VKATTN_OMEGA, 1, 1, 2, 2) = {1, 0, 0, 1};
    for (uint32_t t = 0; t < 40; ++t) {
        // Exponents from -450 to 0 in one chunk.
        c[VKATTN_K][2 * t] = c[VKATTN_K][2 * t + 1] = t < 10 ? 25.0f : 0.1f;
        c[VKATTN_V][t] = static_cast<float>(t);
    }
    for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED}) {
        c.linear.form = form;
        c.run();
        EXPECT_EQ(c.wrong(), "");
        EXPECT_NEAR(c[VKATTN_OUT][0], 0, 1e-6);
        EXPECT_NEAR(c[VKATTN_OUT][9], 4.5, 1e-5);
        EXPECT_NEAR(c[VKATTN_OUT][39], 24.5, 1e-4);
    }
}
