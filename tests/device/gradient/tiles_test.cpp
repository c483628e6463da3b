// The fused kernel of gradients, VKATTN_GRADIENT_TILES: drawn cases against the oracle, cases of many
// tiles, and what the kernel refuses.
#include "device/environment.hpp"
#include "device/gradient/gradient_case.hpp"
#include "support/extent.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

// What the kernel takes.
GradientOptions ofTiles(GradientOptions o) {
    o.dWeights = o.weightsDropped = o.dBias = false;
    o.kernel = VKATTN_GRADIENT_TILES;
    return o;
}

// Whether the device has what the kernel needs; others are tested for saying so.
bool takesTiles(Runtime &runtime) {
    Random random = randomFor("tiles of a device");
    GradientCase c(Case{}, ofTiles({}), random);
    const std::string wrong = runAndVerify(runtime, c);
    return wrong.find("needs subgroup shuffles") == std::string::npos && wrong.find("storage buffers a stage") == std::string::npos;
}

void expectDrawnCasesPass(Limits limits, const Draws &draws, const std::function<Case(Random &)> &draw) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    if (!takesTiles(*runtime)) GTEST_SKIP() << "the device has no subgroup shuffles, or too few storage buffers";
    Random random = randomFor("gradients over tiles");
    int refused = 0, n = 0;
    for (; draws.take(n - refused); ++n) {
        GradientCase c(draw(random), ofTiles(drawGradientOptions(random)), random);
        const std::string wrong = runAndVerify(*runtime, c);
        // Without queries or keys, and, under tight limits, where a head is over them by itself.
        const bool over =
            wrong.find("needs queries and keys") != std::string::npos || (limits == Limits::tight && wrong.rfind("status -2", 0) == 0);
        if (over)
            ASSERT_LT(++refused, n / 2 + 12);
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << c.text();
    }
    std::printf("%d drawn gradients, %d more refused\n", n - refused, refused);
}

// Of several tiles in both directions, with dims of the tiles' sizes and between them.
Case manyTiles(Random &random) {
    Case c = randomCase(random, 5);
    const uint32_t dims[] = {64, 128, 40, 72};
    c.batch = 1;
    c.kvHeads = between(random, 1, 2), c.heads = c.kvHeads * between(random, 1, 3);
    c.queryTokens = between(random, 30, 90), c.keyTokens = between(random, 30, 90);
    c.sequenceLengths.clear();
    c.headDim = dims[random() % 4];
    c.valueDim = c.valuesInKeys ? std::min(c.valueDim, c.headDim - 1) : dims[random() % 4];
    if (c.data == Data::needle) c.data = Data::normal;
    return c;
}

} // namespace

TEST(GradientTiles, areWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {3, 300}, [](Random &random) { return randomCase(random, 5); });
}

TEST(GradientTiles, ofManyTilesAreWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {2, 60}, manyTiles);
}

// Every hook: of the few drawn cases of a default run, none may have one.
TEST(GradientTiles, ofHooksAreWithinTheBoundsOfTheOracle) {
    int n = 0;
    expectDrawnCasesPass(Limits::full, {2, 8}, [&](Random &) {
        Case c;
        c.heads = 4, c.queryTokens = 7, c.keyTokens = 37;
        c.sinks = c.alibi = true;
        c.softcap = 3;
        const Hooks all[] = {Hooks::score, Hooks::all, Hooks::both, Hooks::probability};
        c.hooks = all[n++ % 4];
        return c;
    });
}

TEST(GradientTiles, areCutByHeadsToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, {2, 150}, [](Random &random) {
        Case c = randomCase(random, 5);
        c.queryTokens = std::min(c.queryTokens, 12u), c.keyTokens = std::min(c.keyTokens, 12u);
        return c;
    });
}

TEST(GradientTiles, haveTheSameBitsRunAfterRun) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    if (!takesTiles(*runtime)) GTEST_SKIP() << "the device has no subgroup shuffles, or too few storage buffers";
    Random random = randomFor("bits of gradients over tiles");
    Case of;
    of.heads = 4, of.kvHeads = 2, of.queryTokens = 61, of.keyTokens = 75, of.headDim = of.valueDim = 32, of.causal = true;
    GradientCase c(of, ofTiles({}), random);
    ASSERT_EQ(runAndVerify(*runtime, c), "");
    const std::vector<GradientCase::Given> first = c.tensors;
    for (int run = 0; run < 2; ++run) {
        ASSERT_EQ(runAndVerify(*runtime, c), "");
        for (size_t n = 0; n < first.size(); ++n)
            EXPECT_EQ(c.tensors[n].tensor.damage(first[n].tensor, [](uint32_t, uint32_t, uint32_t, uint32_t) { return false; }), "");
    }
}

// Of a causal problem: the rows before the poisoned one are what they were, and so are the keys that
// only they see.
TEST(GradientTiles, keepNanAwayFromRowsAndKeysThatDoNotSeeIt) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    if (!takesTiles(*runtime)) GTEST_SKIP() << "the device has no subgroup shuffles, or too few storage buffers";
    Random random = randomFor("NaN in gradients over tiles");
    Case of;
    of.batch = of.heads = of.kvHeads = 1, of.queryTokens = of.keyTokens = 50, of.headDim = of.valueDim = 16, of.poison = false;
    of.window = true, of.left = 3, of.right = 0;
    constexpr uint32_t poisoned = 20;
    for (const bool inQ : {true, false}) {
        GradientCase c(of, ofTiles({}), random);
        constexpr float nan = std::numeric_limits<float>::quiet_NaN();
        if (inQ)
            c.forward->q.set(0, 0, poisoned, 3, nan);
        else
            c.find(VKATTN_D_OUT)->set(0, 0, poisoned, 3, nan);
        c.computeForward();
        ASSERT_EQ(runAndVerify(*runtime, c), "");
        for (uint32_t n = 0; n < 50; ++n)
            for (uint32_t d = 0; d < 16; ++d) {
                const bool keySeen = n + 3 >= poisoned && n <= poisoned;
                EXPECT_EQ(std::isnan(c.find(VKATTN_D_Q)->get(0, 0, n, d)), n == poisoned) << n;
                EXPECT_EQ(std::isnan(c.find(VKATTN_D_K)->get(0, 0, n, d)), keySeen) << n;
                EXPECT_EQ(std::isnan(c.find(VKATTN_D_V)->get(0, 0, n, d)), keySeen && (inQ || d == 3)) << n;
            }
    }
}

TEST(GradientTiles, whatTheyRefuseIsStagedForAuto) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("refused gradients over tiles");
    Case of;
    of.biasBroadcast = 1;
    const std::pair<GradientOptions, const char *> refused[] = {{{.dWeights = true}, "does not take dWeights"},
                                                                {{.dBias = true}, "does not compute dBias"}};
    for (auto [options, reason] : refused) {
        options.kernel = VKATTN_GRADIENT_AUTO;
        GradientCase any(of, options, random);
        EXPECT_EQ(runAndVerify(*runtime, any), "") << reason;
        options.kernel = VKATTN_GRADIENT_TILES;
        GradientCase c(of, options, random);
        const std::string wrong = runAndVerify(*runtime, c);
        EXPECT_TRUE(wrong.find(reason) != std::string::npos || wrong.find("needs") != std::string::npos) << wrong;
    }
}
