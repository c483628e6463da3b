// Linear attention on the device: drawn cases against the oracle, in both forms; slices; two halves; long scans.
#include "device/linear/linear_on_device.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

#define SKIP_WITHOUT_BUFFERS()                                                                                                             \
    if (!hasBuffersPerStage(11)) GTEST_SKIP() << "the device has fewer than the 11 storage buffers a stage that linear attention needs"

void expectDrawnCasesPass(Runtime &runtime, const char *name, const Draws &draws, bool tight) {
    test::expectDrawnCasesPass(
        name, draws, tight, [](Random &random) { return drawLinear(random); }, [&](LinearCase &c) { return runAndVerify(runtime, c); },
        [](int all) { return all / 3 + 4; });
}

// With a state in and out.
LinearCase caseOf(vkattn_linear_rule rule, const Sizes &s, Random &random) {
    return packedCase(rule, s, random, true);
}

constexpr const auto &rules = linearRules;

} // namespace

TEST(LinearOnDevice, drawnCasesAreThoseOfTheOracle) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "linear attention", {30, 300}, false);
}

TEST(LinearOnDevice, drawnCasesMeetTightLimits) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "linear attention under tight limits", {12, 150}, true);
}

// Heads that no binding takes together, two or one at a time; keys with half as many heads, which parts share.
TEST(LinearOnDevice, headsInParts) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    Random random = randomFor("heads of linear attention in parts");
    for (const vkattn_linear_rule rule : rules)
        for (const uint32_t tokens : {130u, 260u}) {
            LinearCase c = caseOf(rule, {2, 4, tokens, 32, 32}, random);
            c.linear.k = packed(VKATTN_F32, 2, 2, tokens, 32);
            if (c.linear.decay.extent[0]) c.linear.decay = packed(VKATTN_F32, 2, 1, tokens, 1);
            c.tensors.clear();
            c.fill(random);
            EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
        }
}

// Lengths around the ends of chunks, with a state before the first token, in both forms.
TEST(LinearOnDevice, everyLengthAndForm) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("lengths of linear attention");
    for (const vkattn_linear_rule rule : rules)
        for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED})
            for (const uint32_t tokens : {1u, 2u, 63u, 64u, 65u, 130u, 256u, 1000u}) {
                LinearCase c = caseOf(rule, {1, 2, tokens, 32, 32}, random);
                c.linear.form = form;
                EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
            }
}

// A token by itself, as a decode loop has it: a shader of its own where nothing but its row reads the state.
TEST(LinearOnDevice, singleTokens) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("single tokens of linear attention");
    for (const vkattn_linear_rule rule : rules)
        for (const auto &[keyDim, valueDim] : {std::pair{3u, 5u}, {70u, 40u}, {128u, 128u}, {300u, 33u}}) {
            LinearCase c = caseOf(rule, {2, 2, 1, keyDim, valueDim}, random);
            EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
        }
    int drawn = 0;
    const Draws draws{60, 400};
    for (int n = 0; draws.take(n) || (drawn <= 8 && n < 1000); ++n) { // few draws have a token by itself
        LinearOptions options;
        options.rule = rules[1 + random() % 4];
        options.tokens = 1;
        LinearCase c = drawLinear(random, options);
        const vkattn_linear_attention &l = c.linear;
        const bool own = !l.out.extent[2] || (l.q.extent[2] == 1 && l.out.extent[1] <= std::max(l.k.extent[1], l.v.extent[1]));
        if (l.presentRoles || l.snapshotTokens || !own) continue;
        ++drawn;
        ASSERT_EQ(runAndVerify(*runtime, c), "") << "case " << n << ": " << c.text();
    }
    EXPECT_GT(drawn, 8);
    std::printf("%d single tokens by themselves\n", drawn);
}

// The state after two halves is the state after the whole, up to rounding: the oracle bounds both, and the second
// half is verified from the state that the first has stored.
TEST(LinearOnDevice, twoHalvesMakeTheWhole) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("halves of linear attention");
    constexpr uint32_t tokens = 150, first = 67, dims = 16;
    for (const vkattn_linear_rule rule : rules) {
        LinearCase whole = caseOf(rule, {1, 1, tokens, dims, dims}, random);
        const LinearCase given = whole;
        ASSERT_EQ(runAndVerify(*runtime, whole), "") << whole.text();
        LinearCase half = given;
        for (const uint32_t begin : {0u, first}) {
            const uint32_t count = begin ? tokens - first : first;
            vkattn_linear_attention &l = half.linear;
            for (vkattn_layout *each : {&l.q, &l.k, &l.v, &l.out, &l.decay, &l.writeStrength}) {
                if (each->extent[0] == 0) continue;
                each->offsetElems = uint64_t{begin} * each->extent[3];
                each->extent[2] = count;
            }
            const RunResult result = runtime->run(half.operation(), half.operands());
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            ASSERT_EQ(result.fallbackReason, "");
            std::memcpy(half.tensors.at(VKATTN_STATE_IN).data(), half.output(VKATTN_STATE_OUT).data(),
                        half.output(VKATTN_STATE_OUT).bytes());
        }
        for (const vkattn_role role : {VKATTN_OUT, VKATTN_STATE_OUT}) {
            const HostTensor &a = whole.output(role), &b = half.output(role);
            const vkattn_layout &l = role == VKATTN_OUT ? given.linear.out : given.linear.stateOut;
            double size = 0, difference = 0;
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) {
                    size = std::max(size, std::abs(static_cast<double>(a.get(0, 0, t, d))));
                    difference = std::max(difference, std::abs(static_cast<double>(a.get(0, 0, t, d)) - b.get(0, 0, t, d)));
                }
            EXPECT_GT(size, 0);
            EXPECT_LE(difference, 2e-4 * size) << whole.text();
        }
    }
}

// Behind the last snapshot come as many chunks as a snapshot has, and no snapshot.
TEST(LinearOnDevice, noSnapshotBehindTheLast) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("snapshots of linear attention");
    for (const vkattn_linear_rule rule : {VKATTN_LINEAR_FEATURES, VKATTN_LINEAR_GATED_DELTA})
        for (const auto &[tokens, every] : {std::pair{31u, 6u}, {17u, 9u}, {40u, 8u}}) {
            LinearCase c = caseOf(rule, {1, 2, tokens, 8, 8}, random);
            vkattn_linear_attention &l = c.linear;
            l.form = VKATTN_LINEAR_FORM_CHUNKED;
            l.snapshotTokens = every;
            l.snapshots = packed(VKATTN_F32, 1, 2, tokens / every * 8, l.stateOut.extent[3]);
            // The first head lies behind the second, whose end comes after the first one's beginning.
            l.snapshots.offsetElems = static_cast<uint64_t>(l.snapshots.strideElems[1]);
            l.snapshots.strideElems[1] = -l.snapshots.strideElems[1];
            c.tensors.clear();
            c.fill(random);
            EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
        }
}

// A scan of many tokens in slices has the bits of the scan at once, and no slice has more than its share.
TEST(LinearOnDevice, slicesChangeNoBit) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("slices of linear attention");
    for (const vkattn_linear_rule rule : rules) {
        LinearCase whole = caseOf(rule, {1, 2, 3000, 16, 16}, random), sliced = whole;
        sliced.linear.sliceCount = 7;
        const vkattn_operation o = sliced.operation();
        vkattn_explanation explanation{};
        ASSERT_EQ(explain(runtime->device()->caps, o, explanation), VKATTN_OK);
        EXPECT_GE(explanation.maxSlices, 7u);
        EXPECT_LE(explanation.largestSlice, 1.1 / 7);
        EXPECT_GT(explanation.persistentWorkspaceBytes, 0u);
        ASSERT_EQ(runAndVerify(*runtime, whole), "") << whole.text();
        ASSERT_EQ(runAndVerify(*runtime, sliced), "") << sliced.text();
        EXPECT_TRUE(whole.sameOutputs(sliced)) << whole.text();
    }
}

// 65,536 tokens, each slice with no more planned work than its share.
TEST(LinearOnDevice, longSequencesRunInSlices) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("long sequences of linear attention");
    constexpr uint32_t slices = 50;
    LinearCase c = caseOf(VKATTN_LINEAR_GATED_DELTA, {1, 1, 65536, 16, 16}, random);
    c.linear.sliceCount = slices;
    const vkattn_operation o = c.operation();
    vkattn_explanation explanation{};
    ASSERT_EQ(explain(runtime->device()->caps, o, explanation), VKATTN_OK);
    EXPECT_GE(explanation.maxSlices, slices);
    EXPECT_LE(explanation.largestSlice, 1.1 / slices);
    ASSERT_EQ(runAndVerify(*runtime, c), "") << c.text();
}

// Rows of the state that lanes have and the state has not stay 0 beside an infinite value: 0 * infinity is NaN.
TEST(LinearOnDevice, infinityReachesItsOwnColumnAsInfinity) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("infinite values of linear attention");
    LinearCase c = caseOf(VKATTN_LINEAR_PLAIN, {1, 1, 40, 3, 8}, random);
    for (uint32_t t = 0; t < 40; ++t)
        for (uint32_t d = 0; d < 3; ++d) {
            c.tensors.at(VKATTN_Q).set(0, 0, t, d, 1.0f);
            c.tensors.at(VKATTN_K).set(0, 0, t, d, 1.0f);
        }
    c.tensors.at(VKATTN_V).set(0, 0, 2, 5, std::numeric_limits<float>::infinity());
    EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
    for (uint32_t t = 0; t < 40; ++t)
        for (uint32_t d = 0; d < 8; ++d) {
            const float x = c.output(VKATTN_OUT).get(0, 0, t, d);
            EXPECT_EQ(std::isinf(x), t >= 2 && d == 5) << t << ", " << d << ": " << x;
        }
}

// More chunks than one dispatch may loop over on software drivers.
TEST(LinearOnDevice, longScansGoOnFromDispatchToDispatch) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("long linear attention");
    const LinearCase given = caseOf(VKATTN_LINEAR_GATED_DELTA, {1, 1, 70000, 4, 4}, random);
    LinearCase onCpu = given;
    const vkattn_operation o = onCpu.operation();
    const std::vector<vkattn_operand_memory> operands = onCpu.operands();
    vkattn_diagnostic why{};
    uint64_t bytes = 0;
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, &why), VKATTN_OK) << why.message;
    std::vector<unsigned char> workspace(bytes);
    ASSERT_EQ(vkattnCpuRunOperation(nullptr, &o, operands.data(), static_cast<uint32_t>(operands.size()), workspace.data(), bytes, &why),
              VKATTN_OK)
        << why.message;
    for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED}) {
        LinearCase c = given;
        c.linear.form = form;
        EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
        // The verifier looks at some rows; here all are looked at.
        double difference = 0;
        const HostTensor &a = onCpu.output(VKATTN_OUT), &b = c.output(VKATTN_OUT);
        for (uint32_t t = 0; t < given.linear.out.extent[2]; ++t)
            for (uint32_t d = 0; d < given.linear.out.extent[3]; ++d)
                difference = std::max(difference, std::abs(static_cast<double>(a.get(0, 0, t, d)) - b.get(0, 0, t, d)));
        EXPECT_LT(difference, 1e-4);
    }
}

// Features that take more rows than a lane has, in several lanes whose products are added up in shared memory.
TEST(LinearOnDevice, manyFeatures) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("many features");
    for (const uint32_t m : {300u, 1000u})
        for (const uint32_t flags : {0u, uint32_t{VKATTN_CAUSAL}}) {
            LinearCase c = caseOf(VKATTN_LINEAR_FEATURES, {1, 1, 40, 16, 24}, random);
            vkattn_linear_attention &l = c.linear;
            l.flags = flags;
            l.features = VKATTN_FEATURES_FAVOR;
            l.omega = packed(VKATTN_F32, 1, 1, m, 16);
            l.stateIn = {};
            l.stateOut = packed(VKATTN_F32, 1, 1, m, 26);
            c.tensors.clear();
            c.fill(random);
            EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
        }
}

// Exponents of keys from -200 to 200: terms count beside the largest one that a row has seen.
TEST(LinearOnDevice, exponentsThatNoFloatHolds) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("large exponents of features");
    for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED}) {
        constexpr uint32_t m = 12, dims = 8;
        LinearCase c = caseOf(VKATTN_LINEAR_FEATURES, {1, 2, 50, dims, 5}, random);
        vkattn_linear_attention &l = c.linear;
        l.form = form;
        l.features = VKATTN_FEATURES_FAVOR;
        l.omega = packed(VKATTN_F32, 1, 1, m, dims);
        l.stateIn = {};
        l.stateOut = packed(VKATTN_F32, 1, 2, m, 5 + 2);
        c.tensors.clear();
        c.fill(random);
        HostTensor &omega = c.tensors.at(VKATTN_OMEGA);
        for (uint32_t f = 0; f < m; ++f)
            for (uint32_t d = 0; d < dims; ++d) omega.set(0, 0, f, d, 30 * omega.get(0, 0, f, d));
        EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
    }
}

// The first rows of more queries than keys see nothing.
TEST(LinearOnDevice, rowsThatSeeNothingAreZero) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("rows that see nothing");
    for (const vkattn_feature_map features : {VKATTN_FEATURES_ELU1, VKATTN_FEATURES_RELU, VKATTN_FEATURES_FAVOR})
        for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED}) {
            LinearCase c = caseOf(VKATTN_LINEAR_FEATURES, {1, 2, 40, 8, 5}, random);
            vkattn_linear_attention &l = c.linear;
            l.form = form;
            l.features = features;
            if (features == VKATTN_FEATURES_FAVOR) l.omega = packed(VKATTN_F32, 1, 1, 12, 8);
            l.k = packed(VKATTN_F32, 1, 2, 10, 8);
            l.v = packed(VKATTN_F32, 1, 2, 10, 5);
            l.stateIn = l.stateOut = {};
            c.tensors.clear();
            c.fill(random);
            EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
            for (uint32_t t = 0; t < 30; ++t) EXPECT_EQ(c.output(VKATTN_OUT).get(0, 0, t, 0), 0) << t;
            EXPECT_NE(c.output(VKATTN_OUT).get(0, 0, 30, 0), 0);
        }
}

// No key, and a state of zeros: the sum is 0, and not one that no key has been added to.
TEST(LinearOnDevice, statesOfZerosGiveZero) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("states of zeros");
    for (const vkattn_linear_form form : {VKATTN_LINEAR_FORM_RECURRENT, VKATTN_LINEAR_FORM_CHUNKED})
        for (const uint32_t flags : {uint32_t{0}, uint32_t{VKATTN_CAUSAL}}) {
            constexpr uint32_t tokens = 20, dims = 8, values = 5;
            LinearCase c = caseOf(VKATTN_LINEAR_FEATURES, {1, 2, tokens, dims, values}, random);
            c.linear.form = form;
            c.linear.flags = flags | VKATTN_ALIGN_TOP_LEFT;
            c.linear.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
            c.lengths = {0};
            c.tensors.clear();
            c.fill(random);
            HostTensor &state = c.tensors.at(VKATTN_STATE_IN);
            for (uint32_t h = 0; h < 2; ++h)
                for (uint32_t r = 0; r < dims; ++r)
                    for (uint32_t d = 0; d <= values; ++d) state.set(0, h, r, d, 0);
            EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
            for (uint32_t t = 0; t < tokens; ++t) EXPECT_EQ(c.output(VKATTN_OUT).get(0, 1, t, 4), 0) << t;
        }
}

// The state before the first token is 0, and not nothing: its product with NaN or infinity is NaN.
TEST(LinearOnDevice, singleTokensOfNoNumber) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("single tokens of no number");
    for (const vkattn_linear_rule rule : {VKATTN_LINEAR_PLAIN, VKATTN_LINEAR_GATED, VKATTN_LINEAR_DELTA, VKATTN_LINEAR_GATED_DELTA})
        for (const vkattn_role role : {VKATTN_K, VKATTN_Q, VKATTN_V})
            for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
                LinearCase c = caseOf(rule, {2, 1, 1, 40, 16}, random);
                c.linear.stateIn = {};
                c.tensors.clear();
                c.fill(random);
                c.tensors.at(role).set(1, 0, 0, 7, value);
                EXPECT_EQ(runAndVerify(*runtime, c), "") << c.text();
            }
}
