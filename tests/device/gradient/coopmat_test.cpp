// The kernel of gradients on matrix units, VKATTN_GRADIENT_COOPMAT: drawn cases against the oracle,
// values that no f16 holds, values that are not finite, and what the kernel refuses.
#include "device/environment.hpp"
#include "device/gradient/gradient_case.hpp"
#include "support/extent.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr const char *noUnits = "the device has no matrix units for f16, or too few storage buffers";

// What the kernel takes.
GradientOptions ofMatrices(GradientOptions o) {
    o.dWeights = o.weightsDropped = o.dBias = false;
    o.dOutAsQ = true;
    o.kernel = VKATTN_GRADIENT_COOPMAT;
    return o;
}
Case ofType(Case c, vkattn_dtype type = VKATTN_F16) {
    c.q = c.k = c.v = type;
    if (c.data == Data::denormal) c.data = Data::normal;
    return c;
}

// Whether the device has what the kernel needs; others are tested for saying so.
bool takesMatrices(Runtime &runtime, vkattn_dtype type = VKATTN_F16) {
    Random random = randomFor("matrices of a device");
    GradientCase c(ofType(Case{}, type), ofMatrices({}), random);
    const std::string wrong = runAndVerify(runtime, c);
    for (const char *reason : {"matrix", "storage buffers a stage", "computeFullSubgroups"})
        if (wrong.find(reason) != std::string::npos) return false;
    return true;
}

void expectDrawnCasesPass(Limits limits, const Draws &draws, vkattn_dtype type, const std::function<Case(Random &)> &draw) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    if (!takesMatrices(*runtime, type)) GTEST_SKIP() << noUnits;
    Random random = randomFor("gradients on matrix units");
    int refused = 0, n = 0;
    for (; draws.take(n); ++n) {
        GradientCase c(ofType(draw(random), type), ofMatrices(drawGradientOptions(random)), random);
        const std::string wrong = runAndVerify(*runtime, c);
        // Without queries or keys, and, under tight limits, where a head is over them by itself.
        const bool over = wrong.find("needs queries and keys") != std::string::npos || wrong.find("dims up to 256") != std::string::npos ||
                          (limits == Limits::tight && wrong.rfind("status -2", 0) == 0);
        if (over)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << c.text();
    }
    EXPECT_LT(refused, n / 2);
    std::printf("%d drawn gradients, %d refused\n", n, refused);
}

// Of several tiles in both directions, with dims of the matrices' sizes and between them.
Case manyTiles(Random &random) {
    Case c = randomCase(random, 5);
    const uint32_t dims[] = {64, 32, 40, 72, 128};
    c.batch = 1;
    c.kvHeads = between(random, 1, 2), c.heads = c.kvHeads * between(random, 1, 3);
    c.queryTokens = between(random, 30, 90), c.keyTokens = between(random, 30, 90);
    c.sequenceLengths.clear();
    c.headDim = dims[random() % 5];
    c.valueDim = c.valuesInKeys ? std::min(c.valueDim, c.headDim - 1) : dims[random() % 5];
    if (c.data == Data::needle) c.data = Data::normal;
    return c;
}

Case packedCase(uint32_t tokens, uint32_t dim) {
    Case c = ofType({});
    c.batch = c.heads = c.kvHeads = 1, c.queryTokens = c.keyTokens = tokens, c.headDim = c.valueDim = dim, c.poison = false;
    c.out = VKATTN_F32;
    return c;
}

} // namespace

TEST(GradientCoopmat, isWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {16, 200}, VKATTN_F16, [](Random &random) { return randomCase(random, 5); });
}

TEST(GradientCoopmat, ofBfloat16IsWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {8, 100}, VKATTN_BF16, [](Random &random) { return randomCase(random, 5); });
}

TEST(GradientCoopmat, ofManyTilesIsWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, {8, 60}, VKATTN_F16, manyTiles);
}

TEST(GradientCoopmat, isCutByHeadsToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, {8, 100}, VKATTN_F16, [](Random &random) {
        Case c = randomCase(random, 3);
        c.queryTokens = std::min(c.queryTokens, 12u), c.keyTokens = std::min(c.keyTokens, 12u);
        return c;
    });
}

TEST(GradientCoopmat, hasTheSameBitsRunAfterRun) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    if (!takesMatrices(*runtime)) GTEST_SKIP() << noUnits;
    Random random = randomFor("bits of gradients on matrix units");
    Case of = packedCase(61, 32);
    of.heads = 4, of.kvHeads = 2, of.keyTokens = 75, of.causal = true;
    GradientCase c(of, ofMatrices({}), random);
    ASSERT_EQ(runAndVerify(*runtime, c), "");
    const std::vector<GradientCase::Given> first = c.tensors;
    for (int run = 0; run < 2; ++run) {
        ASSERT_EQ(runAndVerify(*runtime, c), "");
        for (size_t n = 0; n < first.size(); ++n)
            EXPECT_EQ(c.tensors[n].tensor.damage(first[n].tensor, [](uint32_t, uint32_t, uint32_t, uint32_t) { return false; }), "");
    }
}

// dz from far below what f16 holds to far above, growing and falling along rows and keys, so that sums
// are rescaled in both passes; and of loss scales that no dz in f16 would bear.
TEST(GradientCoopmat, keepsValuesThatNoHalfHolds) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    if (!takesMatrices(*runtime)) GTEST_SKIP() << noUnits;
    Random random = randomFor("sizes of gradients on matrix units");
    for (const bool grows : {true, false})
        for (const bool inV : {true, false}) {
            Case of = packedCase(70, 16);
            of.causal = true;
            GradientOptions options = ofMatrices({});
            options.lossScale = 0x1p-8f;
            GradientCase c(of, options, random);
            HostTensor &scaled = inV ? c.forward->v : *c.find(VKATTN_D_OUT);
            for (uint32_t n = 0; n < 70; ++n)
                for (uint32_t d = 0; d < 16; ++d)
                    scaled.set(0, 0, n, d, std::ldexp(scaled.get(0, 0, n, d), static_cast<int>(grows ? n : 69 - n) / 3 - 9));
            c.computeForward();
            EXPECT_EQ(runAndVerify(*runtime, c), "") << grows << inV;
            // Tiny all over: the sums are above what f16 holds, the terms are not.
            for (HostTensor *t : {&c.forward->v, c.find(VKATTN_D_OUT)})
                for (uint32_t n = 0; n < 70; ++n)
                    for (uint32_t d = 0; d < 16; ++d) t->set(0, 0, n, d, std::ldexp(static_cast<float>(random() % 64) - 32, -24));
            c.computeForward();
            EXPECT_EQ(runAndVerify(*runtime, c), "") << grows << inV;
        }
}

// NaN and infinity in what some rows see: where the oracle is finite, so is the gradient.
TEST(GradientCoopmat, keepsWhatIsNotFiniteToThoseWhoSeeIt) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    if (!takesMatrices(*runtime)) GTEST_SKIP() << noUnits;
    Random random = randomFor("what is not finite on matrix units");
    Case of = packedCase(50, 16);
    of.window = true, of.left = 3, of.right = 0;
    constexpr uint32_t poisoned = 20;
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float value : {nan, infinity, -infinity})
        for (const float softcap : {0.0f, 5.0f})
            for (int in = 0; in < 4; ++in) {
                of.softcap = softcap;
                GradientCase c(of, ofMatrices({}), random);
                HostTensor *const all[] = {&c.forward->q, &c.forward->k, &c.forward->v, c.find(VKATTN_D_OUT)};
                all[in]->set(0, 0, poisoned, 3, value);
                c.computeForward();
                ASSERT_EQ(runAndVerify(*runtime, c), "") << value << " in " << in << " softcap " << softcap;
                for (uint32_t n = 0; n < 50; ++n) {
                    // Rows 20 to 23 see key 20; keys 17 to 20 are seen by row 20; those together by rows 20
                    // to 23: keys 17 to 23.
                    const bool row = in == 0 || in == 3 ? n == poisoned : n >= poisoned && n <= poisoned + 3;
                    const bool key = n + 3 >= poisoned && n <= poisoned + (in == 0 || in == 3 ? 0 : 3);
                    for (uint32_t d = 0; d < 16; ++d) {
                        EXPECT_TRUE(row || std::isfinite(c.find(VKATTN_D_Q)->get(0, 0, n, d))) << n;
                        EXPECT_TRUE(key || std::isfinite(c.find(VKATTN_D_K)->get(0, 0, n, d))) << n;
                        EXPECT_TRUE(key || std::isfinite(c.find(VKATTN_D_V)->get(0, 0, n, d))) << n;
                    }
                }
            }
}

TEST(GradientCoopmat, whatItRefusesOthersTakeForAuto) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    if (!takesMatrices(*runtime)) GTEST_SKIP() << noUnits;
    Random random = randomFor("refused gradients on matrix units");
    Case f16 = ofType({}), f32 = ofType({}, VKATTN_F32), mixed = f16;
    f16.biasBroadcast = 1;
    mixed.v = VKATTN_F32;
    const auto with = [](GradientOptions o) { return o.dOutAsQ = true, o; };
    const std::tuple<Case, GradientOptions, const char *> refused[] = {{f16, with({.dWeights = true}), "does not take dWeights"},
                                                                       {f16, with({.dBias = true}), "does not compute dBias"},
                                                                       {f32, with({}), "all f16 or all bf16"},
                                                                       {mixed, with({}), "all f16 or all bf16"}};
    for (auto [of, options, reason] : refused) {
        options.kernel = VKATTN_GRADIENT_AUTO;
        GradientCase any(of, options, random);
        EXPECT_EQ(runAndVerify(*runtime, any), "") << reason;
        options.kernel = VKATTN_GRADIENT_COOPMAT;
        GradientCase c(of, options, random);
        const std::string wrong = runAndVerify(*runtime, c);
        EXPECT_NE(wrong.find(reason), std::string::npos) << wrong;
    }
}
