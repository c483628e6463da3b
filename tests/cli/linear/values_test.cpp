// The numbers of `vkattn linear`: rules, features, decays, states, types and shapes.
#include "linear_fixture.hpp"

#include <cmath>

namespace {

TEST_F(LinearTest, rules) {
    for (const std::string each : {"linear", "gated", "delta", "gated-delta"}) {
        rule = each;
        for (const std::string form : {"auto", "recurrent", "chunked"}) {
            givenAll(2, 37, 8, 5);
            check({"--form", form});
        }
    }
}

TEST_F(LinearTest, featureMaps) {
    rule = "softmax-features";
    for (const std::string each : {"elu1", "relu", "favor", "favor2"})
        for (const bool hides : {false, true}) {
            features = each, causal = hides;
            givenAll(2, 21, 6, 3);
            check();
        }
    features = "favor", scale = 0.5;
    givenAll(1, 9, 4, 4);
    check({"--scale", "0.5"});
    features = "elu1"; // ignores the scale
    givenAll(1, 9, 4, 4);
    check({"--scale", "0.5"});
}

TEST_F(LinearTest, scalesOfRecurrentRules) {
    givenAll(1, 9, 4, 4);
    check({"--scale", "0"}); // 1/sqrt(dim)
    scale = 2;
    check({"--scale", "2"});
}

TEST_F(LinearTest, decaysOfKeyDims) {
    rule = "gated-delta";
    givenAll(2, 33, 6, 4);
    given("decay", {2, 33, 6}, 0.2);
    check();
}

TEST_F(LinearTest, types) {
    rule = "gated-delta";
    givenAll(2, 20, 8, 4);
    for (const std::string name : {"q", "k", "v", "decay", "beta"}) writeNpy(file(name + ".npy"), arrays[name], {.descr = "<f2"});
    check({}, "<f2");
    check({"--out-dtype", "f32"});
    const Outcome outcome = tool(command({"--round-to", "bf16", "--verify=all"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
}

TEST_F(LinearTest, statesGoOn) {
    rule = "gated-delta";
    givenAll(2, 20, 6, 4);
    given("state-in", {2, 6, 4});
    check({"--state-out", "whole.npy"});
    const ReadArray out = readNpy(file("o.npy")), state = readNpy(file("whole.npy"));
    EXPECT_EQ(state.shape, (std::vector<size_t>{1, 2, 6, 4}));
    EXPECT_EQ(state.descr, "<f4");

    const std::map<std::string, Array> whole = arrays;
    for (const size_t part : {0u, 1u}) {
        for (const auto &[name, array] : whole) {
            if (name == "state-in") continue;
            Array half{array.shape, {}};
            half.shape[1] = 10;
            const size_t row = array.values.size() / 40; // of a token
            for (size_t h = 0; h < 2; h++)
                for (size_t n = 0; n < 10 * row; n++) half.values.push_back(array.values[(h * 20 + part * 10) * row + n]);
            writeNpy(file(name + ".npy"), arrays[name] = half);
        }
        if (part == 1) {
            const ReadArray first = readNpy(file("first.npy"));
            writeNpy(file("state-in.npy"), Array{first.shape, first.values});
        }
        const Outcome outcome = tool(command({"--state-out", part == 0 ? "first.npy" : "second.npy", "--verify=all"}));
        ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
        const ReadArray half = readNpy(file("o.npy"));
        for (size_t h = 0; h < 2; h++)
            for (size_t n = 0; n < 40; n++) EXPECT_NEAR(half.values[h * 40 + n], out.values[h * 80 + part * 40 + n], 1e-5);
    }
    const ReadArray second = readNpy(file("second.npy"));
    for (size_t n = 0; n < state.values.size(); n++) EXPECT_NEAR(second.values[n], state.values[n], 1e-5);
}

TEST_F(LinearTest, statesOfFeatures) {
    rule = "softmax-features", features = "favor2", causal = true;
    givenAll(1, 10, 4, 3);
    const Outcome outcome = tool(command({"--state-out", "s.npy", "--verify"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(readNpy(file("s.npy")).shape, (std::vector<size_t>{1, 1, 24, 5}));
}

TEST_F(LinearTest, featuresOfEachHead) {
    rule = "softmax-features";
    for (const std::string each : {"relu", "favor", "favor2"})
        for (const size_t keyHeads : {4, 2, 1}) {
            features = each, causal = keyHeads != 2;
            givenAll(4, 19, 6, 3);
            given("k", {keyHeads, 19, 6}, 0.4);
            given("v", {keyHeads, 19, 3});
            given("omega", {4, 12, 6});
            check({"--state-out", "s.npy"});
            const std::vector<size_t> state = readNpy(file("s.npy")).shape;
            EXPECT_EQ(state.at(state.size() - 3), 4u);
        }
}

TEST_F(LinearTest, sharedHeads) {
    given("q", {2, 7, 4});
    given("k", {2, 7, 4}, 0.5);
    given("v", {4, 7, 3});
    for (const std::string mapping : {"divided", "modulo"}) {
        const Outcome outcome = tool(command({"--head-mapping", mapping, "--verify=all"}));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(readNpy(file("o.npy")).shape, (std::vector<size_t>{4, 7, 3}));
    }
}

TEST_F(LinearTest, ranks) {
    for (const std::vector<size_t> &leading : std::vector<std::vector<size_t>>{{}, {3}, {2, 3}}) {
        arrays.clear();
        const auto shape = [&](size_t tokens, size_t dim) {
            std::vector<size_t> all = leading;
            all.insert(all.end(), {tokens, dim});
            return all;
        };
        given("q", shape(5, 4));
        given("k", shape(5, 4));
        given("v", shape(5, 3));
        const Outcome outcome = tool(command({"--verify"}));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(readNpy(file("o.npy")).shape, shape(5, 3));
    }
}

TEST_F(LinearTest, reports) {
    rule = "gated";
    givenAll(2, 6, 4, 3);
    const Outcome outcome = tool(command({"--json", "--verify", "--state-out", "s.npy"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const std::string part : {"\"rule\":\"gated\"", "\"kernel\":\"cpu\"", "\"passed\":true", "\"stateOut\":\"s.npy\"",
                                   "\"decay\":[2,6]", "\"fallbackReason\":null"})
        EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
    const Outcome text = tool(command());
    for (const std::string part : {"rule gated", "causal bottom-right", "read      decay.npy", "wrote     o.npy (2, 6, 3) float32"})
        EXPECT_NE(text.out.find(part), std::string::npos) << part << " in " << text.out;
}

TEST_F(LinearTest, gradientsOfEveryRuleAndMap) {
    for (const std::string each : {"linear", "gated", "delta", "gated-delta"}) {
        rule = each;
        givenAll(2, 7, 4, 3);
        given("state-in", {2, 4, 3});
        checkGradients();
    }
    given("decay", {2, 7, 4}, 0.2); // of each key dim
    checkGradients();
    rule = "softmax-features";
    for (const std::string each : {"elu1", "relu", "favor", "favor2"})
        for (const bool hides : {false, true}) {
            features = each, causal = hides;
            givenAll(1, 6, 4, 3);
            checkGradients();
        }
}

// With the result in the same call, a loss scale, types, and the gradient of a state.
TEST_F(LinearTest, gradientsBesideTheResult) {
    rule = "gated-delta";
    givenAll(2, 9, 4, 3);
    given("state-in", {2, 4, 3});
    given("dout", {2, 9, 3});
    const Outcome outcome = checkGradients({"--out", "o.npy", "--state-out", "s.npy", "--json"});
    for (const std::string part : {"\"forward\":{", "\"ddecay\":\"ddecay.npy\"", "\"step\":\"", "\"passed\":true"})
        EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
    const ReadArray plain = readNpy(file("dk.npy"));
    EXPECT_EQ(readNpy(file("o.npy")).shape, (std::vector<size_t>{2, 9, 3}));

    Array scaled = arrays.at("dout");
    for (double &each : scaled.values) each *= 256;
    writeNpy(file("dout.npy"), scaled);
    const Outcome whole = tool(gradientCommand({"--loss-scale", "256", "--json", "--verify"}));
    ASSERT_EQ(whole.status, 0) << whole.err;
    EXPECT_NE(whole.out.find("\"finite\":true"), std::string::npos) << whole.out;
    EXPECT_EQ(readNpy(file("dk.npy")).values, plain.values);

    given("dstate-out", {2, 4, 3});
    const Outcome further = tool(gradientCommand({"--out-dtype", "f16", "--verify=all"}));
    ASSERT_EQ(further.status, 0) << further.err;
    EXPECT_EQ(readNpy(file("dq.npy")).descr, "<f2");
    EXPECT_EQ(readNpy(file("dstate-in.npy")).descr, "<f4");
}

// A device computes it by its own kernel, in slices too, and says so.
TEST_F(LinearTest, onADevice) {
    if (!hasTestedDevice()) return;
    where = {};
    givenAll(1, 6, 4, 3);
    const Outcome outcome = tool(command({"--json", "--no-fallback", "--verify"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const std::string part : {"\"kernel\":\"linear\"", "\"fallbackReason\":null", "\"passed\":true"})
        EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
}

// So do gradients: all of them, by a kernel of their own.
TEST_F(LinearTest, gradientsOnADevice) {
    if (!hasTestedDevice()) return;
    where = {};
    givenAll(1, 6, 4, 3);
    const Outcome outcome = tool(gradientCommand({"--json", "--no-fallback", "--verify"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const std::string part : {"\"kernel\":\"linear_gradient\"", "\"fallbackReason\":null", "\"passed\":true"})
        EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
}

} // namespace
