// Statistics of attention on the device: drawn cases against the oracle, with gaps that are canaries and
// NaN in whatever no pair may read; the same bits however the work is cut.
#include "conform/statistics/statistics_case.hpp"
#include "device/environment.hpp"
#include "device/lists.hpp"
#include "support/extent.hpp"
#include "vkattn/list.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Runs the case and returns what is wrong; the results are in the case.
std::string run(Runtime &runtime, StatisticsCase &s, uint32_t *dispatches = nullptr) {
    const RunResult result = runtime.run(s.operation(), s.operands());
    if (dispatches) *dispatches = result.dispatchCount;
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    return result.fallbackReason.empty() ? "" : "the CPU computed: " + result.fallbackReason;
}

std::string runAndVerify(Runtime &runtime, StatisticsCase &s) {
    const StatisticsCase before = s;
    const std::string wrong = run(runtime, s);
    return wrong.empty() ? s.wrong(before) : wrong;
}

// The device with what `weaken` changes of its caps, and so much workspace; 0: the default.
std::unique_ptr<Runtime> openWith(uint64_t workspace, const std::function<void(vkattn_caps &)> &weaken = {}) {
    RuntimeOptions options = optionsFor(Limits::full);
    options.maxWorkspaceBytes = workspace;
    if (weaken) {
        const DeviceInfo *device = bench().device();
        options.capsLimit = device ? device->caps : vkattn_caps{};
        weaken(*options.capsLimit);
    }
    std::string why;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, nullptr, &why);
    EXPECT_TRUE(runtime) << why;
    return runtime;
}

// Whether the device binds as many buffers as statistics need; others are tested for saying so.
bool takesStatistics() {
    const DeviceInfo *device = bench().device();
    return device && device->caps.maxStorageBuffersPerStage >= 14;
}
#define SKIP_WITHOUT_BUFFERS()                                                                                                             \
    if (!takesStatistics()) GTEST_SKIP() << "the device has fewer than the 14 storage buffers a stage that statistics need"

// Several problems for each set of pipelines, whose compilation takes CPU devices seconds.
template <class Visit> void eachDrawn(Random &random, const Draws &draws, const Visit &visit) {
    constexpr int ofSamePipelines = 4;
    Case c;
    StatisticsOptions options;
    for (int n = 0; draws.take(n); ++n) {
        if (n % ofSamePipelines == 0)
            c = randomCase(random, 5), options = drawStatisticsOptions(random);
        else
            c = samePipelines(random, c);
        visit(n, drawStatistics(random, c, options));
    }
}

void expectDrawnCasesPass(Runtime &runtime, const char *name, const Draws &draws, bool tight) {
    Random random = randomFor(name);
    int refused = 0, all = 0;
    eachDrawn(random, draws, [&](int n, StatisticsCase s) {
        const std::string wrong = runAndVerify(runtime, s);
        ++all;
        // Rows that are over a tight limit by themselves, as transposed tensors have them.
        if (tight && wrong.rfind("status -2", 0) == 0)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << s.text();
    });
    EXPECT_LT(refused, all / 3 + 4);
    std::printf("%d drawn statistics, %d over the limits\n", all, refused);
}

StatisticsOptions allOutputs() {
    StatisticsOptions o;
    o.densityThreshold = 0.05f;
    return o;
}

} // namespace

TEST(StatisticsOnDevice, areWithinTheBoundsOfTheOracle) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "statistics", {16, 300}, false);
}

TEST(StatisticsOnDevice, areCutToMeetTightLimits) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "statistics under tight limits", {12, 300}, true);
}

// The form without subgroups, which any device can run.
TEST(StatisticsOnDevice, needNoSubgroups) {
    SKIP_WITHOUT_BUFFERS();
    const std::unique_ptr<Runtime> runtime = openWith(0, [](vkattn_caps &caps) { caps.subgroupShuffle = caps.subgroupClustered = 0; });
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "statistics without subgroups", {12, 300}, false);
}

TEST(StatisticsOnDevice, areOfAnyHeadDim) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("head dims of statistics");
    const uint32_t dims[] = {1, 5, 64, 100, 128, 256, 257, 320};
    const size_t drawn = random() % std::size(dims);
    for (size_t n = 0; n < std::size(dims); ++n) {
        // By default three of them: pipelines of large dims take CPU devices seconds.
        if (!fullExtent() && n != drawn && dims[n] != 100 && dims[n] != 257) continue;
        Case c;
        c.headDim = dims[n];
        c.causal = true, c.queryTokens = 37, c.keyTokens = 45;
        StatisticsCase s = drawStatistics(random, c, allOutputs());
        EXPECT_EQ(runAndVerify(*runtime, s), "") << s.text();
    }
}

// Of one row, which has a layout of lanes of its own on some devices: every head dim, with everything asked for,
// and the same bits in chunks of keys and in slices.
TEST(StatisticsOnDevice, areOfOneRow) {
    SKIP_WITHOUT_BUFFERS();
    const std::unique_ptr<Runtime> whole = openWith(0), cut = openWith(0, [](vkattn_caps &caps) { caps.maxStorageBufferRange = 1u << 17; });
    ASSERT_TRUE(whole && cut);
    Random random = randomFor("statistics of one row");
    uint32_t moreDispatches = 0;
    const bool ofHalves = random() % 2;
    for (const uint32_t headDim : {1u, 6u, 64u, 100u, 256u})
        for (const bool f16 : {false, true}) {
            // By default 64 of a drawn type, and one in four of the others: each compiles on both devices.
            if (!fullExtent() && (headDim == 64 ? f16 != ofHalves : random() % 4 > 0)) continue;
            Case c;
            c.headDim = headDim, c.queryTokens = 1, c.heads = 4, c.kvHeads = 2, c.causal = random() % 2;
            c.keyTokens = headDim == 64 ? between(random, 1100, 1500) : between(random, 1, 400); // of 64 over one binding a head
            c.q = c.k = f16 ? VKATTN_F16 : VKATTN_F32;
            const StatisticsCase before = drawStatistics(random, c, allOutputs());
            StatisticsCase once = before;
            uint32_t dispatches = 0, count = 0;
            ASSERT_EQ(run(*whole, once, &dispatches), "") << before.text();
            ASSERT_EQ(once.wrong(before), "") << before.text();
            StatisticsCase again = before;
            again.attention.sliceCount = between(random, 0, 9);
            ASSERT_EQ(run(*cut, again, &count), "") << before.text();
            ASSERT_TRUE(once.sameOutputs(again)) << again.text();
            moreDispatches += count > dispatches;
        }
    EXPECT_GE(moreDispatches, fullExtent() ? 2u : 1u);
}

TEST(StatisticsOnDevice, takeUpTo16Keys) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("largest weights");
    for (const uint32_t top : {between(random, 2, 7), uint32_t{VKATTN_MAX_TOP_KEYS}}) {
        StatisticsOptions options;
        options.received = false;
        options.top = top;
        Case c;
        c.causal = true, c.topLeft = true; // the first rows see fewer keys
        c.queryTokens = 30, c.keyTokens = 30, c.headDim = 8;
        StatisticsCase s = drawStatistics(random, c, options);
        EXPECT_EQ(runAndVerify(*runtime, s), "") << s.text();
        c.data = Data::equal; // of equal scores the lowest keys
        c.poison = false;
        s = drawStatistics(random, c, options);
        ASSERT_EQ(runAndVerify(*runtime, s), "") << s.text();
    }
}

// In one piece, in slices, in more slices than have work; cut by the workspace and by the bindings.
TEST(StatisticsOnDevice, bitsDoNotDependOnChunksAndSlices) {
    SKIP_WITHOUT_BUFFERS();
    const auto smallBindings = [](vkattn_caps &caps) { caps.maxStorageBufferRange = 1u << 16; };
    Random random = randomFor("chunks and slices of statistics");
    std::vector<std::unique_ptr<Runtime>> runtimes;
    runtimes.push_back(openWith(0)), runtimes.push_back(openWith(0, smallBindings));
    // By default one of the two: each compiles what the others have compiled.
    const bool someRows = isDrawn(random, 2);
    if (someRows) runtimes.push_back(openWith(2000));
    if (!someRows || fullExtent()) runtimes.push_back(openWith(1));
    for (const std::unique_ptr<Runtime> &runtime : runtimes) ASSERT_TRUE(runtime);
    uint32_t cut = 0;
    const Draws draws(8, 80);
    Case c;
    StatisticsOptions options;
    for (int n = 0; draws.take(n); ++n) {
        if (n % 4 == 0) {
            c = randomCase(random, 4), options = drawStatisticsOptions(random);
            // Of a list of the largest weights, where keys come in one chunk; and of a step of its own.
            options.densityThreshold = n % 8 == 0 ? 0.1f : 0.03f;
            c.headDim = 16, c.valuesInKeys = c.keysHoldValues = false;
        } else {
            c = samePipelines(random, c);
        }
        // Keys of one head above 64 KiB.
        if (n % 4 == 3) c.keyTokens = 1900, c.batch = 1, c.queryTokens = 9, c.kvHeads = 1, c.heads = 2;
        const StatisticsCase before = drawStatistics(random, c, options);
        StatisticsCase whole = before;
        uint32_t dispatches = 0;
        ASSERT_EQ(run(*runtimes[0], whole, &dispatches), "") << before.text();
        ASSERT_EQ(whole.wrong(before), "") << before.text();
        for (const std::unique_ptr<Runtime> &runtime : runtimes)
            for (const uint32_t slices : {0u, 2u, 7u, UINT32_MAX}) {
                StatisticsCase again = before;
                again.attention.sliceCount = slices;
                uint32_t count = 0;
                const std::string wrong = run(*runtime, again, &count);
                if (wrong.rfind("status -2", 0) == 0 && runtime == runtimes[1]) continue; // transposed rows
                ASSERT_EQ(wrong, "") << again.text();
                cut += count > dispatches;
                ASSERT_TRUE(whole.sameOutputs(again))
                    << slices << " slices, " << count << " dispatches instead of " << dispatches << ": " << again.text();
            }
    }
    EXPECT_GT(cut, 8u);
}

// Without queries keys receive 0, and the heads are cut where their keys exceed a binding.
TEST(StatisticsOnDevice, withoutQueriesKeysReceiveNothing) {
    SKIP_WITHOUT_BUFFERS();
    const std::unique_ptr<Runtime> whole = openWith(0), cut = openWith(0, [](vkattn_caps &caps) { caps.maxStorageBufferRange = 1u << 16; });
    ASSERT_TRUE(whole && cut);
    Random random = randomFor("statistics without queries");
    Case c;
    c.batch = 2, c.heads = 3, c.kvHeads = 3, c.queryTokens = 0, c.keyTokens = between(random, 6000, 7000), c.headDim = c.valueDim = 2;
    StatisticsOptions options;
    options.top = 0, options.drawLayouts = false;
    const StatisticsCase before = drawStatistics(random, c, options);
    uint32_t dispatches[2]{};
    for (const bool cutting : {false, true}) {
        StatisticsCase s = before;
        ASSERT_EQ(run(cutting ? *cut : *whole, s, &dispatches[cutting]), "") << s.text();
        EXPECT_EQ(s.wrong(before), "") << s.text();
        const HostTensor &received = s.tensors.at(VKATTN_RECEIVED);
        for (uint32_t b = 0; b < c.batch; ++b)
            for (uint32_t h = 0; h < c.heads; ++h)
                for (uint32_t j = 0; j < c.keyTokens; ++j) ASSERT_EQ(received.getWord(b, h, j, 0), 0u) << b << ", " << h << ", key " << j;
    }
    EXPECT_GT(dispatches[1], dispatches[0]);
}

// The keys above the threshold are in the first chunk, and the list that counts them where keys come in one
// chunk cannot be kept: a step of its own counts.
TEST(StatisticsOnDevice, theDensityOfKeysInChunksIsCountedByAStep) {
    SKIP_WITHOUT_BUFFERS();
    const std::unique_ptr<Runtime> whole = openWith(0), cut = openWith(0, [](vkattn_caps &caps) { caps.maxStorageBufferRange = 1u << 16; });
    ASSERT_TRUE(whole && cut);
    Random random = randomFor("density of chunks");
    for (const uint32_t top : {0u, 2u}) {
        Case c;
        c.name = "density", c.heads = 2, c.kvHeads = 1, c.queryTokens = 9, c.keyTokens = 1900, c.headDim = c.valueDim = 16;
        c.scale = 1.0f; // scores with a deviation of 4: some weights are above 0.1
        StatisticsOptions options;
        options.top = top, options.densityThreshold = 0.1f, options.drawLayouts = options.spoils = false;
        StatisticsCase inOne = drawStatistics(random, c, options), inChunks = inOne;
        uint32_t dispatches = 0, more = 0;
        ASSERT_EQ(run(*whole, inOne, &dispatches), "");
        ASSERT_EQ(run(*cut, inChunks, &more), "");
        EXPECT_GT(more, dispatches);
        EXPECT_TRUE(inOne.sameOutputs(inChunks)) << top << " top keys: " << inOne.text();
        const HostTensor &columns = inOne.tensors.at(VKATTN_STATISTICS);
        float all = 0;
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t i = 0; i < c.queryTokens; ++i) all += columns.get(0, h, i, VKATTN_STATISTIC_DENSITY);
        EXPECT_GT(all, 0);
    }
}

// Of a windowed problem: rows that do not see the key keep every bit, and so do the keys that only they see.
TEST(StatisticsOnDevice, keepNanAwayFromRowsThatDoNotSeeIt) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("NaN in statistics");
    constexpr uint32_t tokens = 50, poisoned = 20, left = 3;
    Case c;
    c.batch = c.heads = c.kvHeads = 1, c.queryTokens = c.keyTokens = tokens, c.headDim = 16, c.poison = false;
    c.window = true, c.left = left, c.right = 0;
    const StatisticsCase before = drawStatistics(random, c, allOutputs());
    StatisticsCase clean = before;
    for (HostTensor *t : {&clean.data->q, &clean.data->k}) // whatever was drawn, all of it is finite
        for (uint32_t i = 0; i < tokens; ++i)
            for (uint32_t d = 0; d < 16; ++d) t->set(0, 0, i, d, 0.01f * static_cast<float>(between(random, 0, 200)));
    for (const bool inQ : {true, false}) {
        StatisticsCase s = clean, plain = clean;
        (inQ ? s.data->q : s.data->k).set(0, 0, poisoned, 3, std::numeric_limits<float>::quiet_NaN());
        const StatisticsCase spoilt = s;
        ASSERT_EQ(run(*runtime, plain), "");
        ASSERT_EQ(run(*runtime, s), "");
        ASSERT_EQ(s.wrong(spoilt), "");
        for (uint32_t i = 0; i < tokens; ++i) {
            // Row i sees keys i - left to i.
            const bool bad = inQ ? i == poisoned : i >= poisoned && i <= poisoned + left;
            for (const vkattn_role role : {VKATTN_STATISTICS, VKATTN_TOP_WEIGHTS})
                for (uint32_t d = 0; d < s.layout(role).extent[3]; ++d) {
                    const uint32_t got = s.tensors.at(role).getWord(0, 0, i, d);
                    EXPECT_EQ(std::isnan(s.tensors.at(role).get(0, 0, i, d)), bad) << "role " << role << ", row " << i << ", " << d;
                    EXPECT_TRUE(bad || got == plain.tensors.at(role).getWord(0, 0, i, d)) << "role " << role << ", row " << i;
                }
            const bool badKey = inQ ? i + left >= poisoned && i <= poisoned : i + left >= poisoned && i <= poisoned + left;
            EXPECT_EQ(std::isnan(s.tensors.at(VKATTN_RECEIVED).get(0, 0, i, 0)), badKey) << "key " << i;
        }
    }
}

TEST(StatisticsOnDevice, saysWhatADeviceOfFourBuffersLacks) {
    Runtime *runtime = runtimeFor(Limits::weak);
    ASSERT_TRUE(runtime);
    Random random = randomFor("statistics on a weak device");
    StatisticsCase s = drawStatistics(random, Case{}, allOutputs());
    const StatisticsCase before = s;
    const RunResult result = runtime->run(s.operation(), s.operands());
    EXPECT_EQ(result.status, VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(result.message.find("need 14 storage buffers a stage; the device has 4"), std::string::npos) << result.message;
    EXPECT_TRUE(s.sameOutputs(before));
}

// The forward pass and its statistics in one list, of the same description.
TEST(StatisticsOnDevice, followTheForwardPassInAList) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("statistics in a list");
    const auto allocate = [&](const vkattn_layout &layout) { return allocateDrawn(*runtime, layout, random); };
    AttentionOf forward;
    forward.q = allocate(packed(VKATTN_F32, 2, 4, 33, 16));
    forward.k = forward.v = allocate(packed(VKATTN_F32, 2, 2, 40, 16));
    forward.out = allocate(packed(VKATTN_F32, 2, 4, 33, 16)), forward.lse = allocate(packed(VKATTN_F32, 2, 4, 33, 2));
    forward.sinks = allocate(vector(VKATTN_F32, 4)), forward.slopes = allocate(vector(VKATTN_F32, 4));
    forward.options.flags = VKATTN_CAUSAL | VKATTN_ROW_STATISTICS;
    AttentionStatisticsOf statistics;
    statistics.attention = forward;
    statistics.statistics = allocate(packed(VKATTN_F32, 2, 4, 33, VKATTN_STATISTIC_COUNT));
    statistics.received = allocate(packed(VKATTN_F32, 2, 4, 40, 1));
    statistics.topWeights = allocate(packed(VKATTN_F32, 2, 4, 33, 3));
    statistics.topKeys = allocate(packed(VKATTN_BITS32, 2, 4, 33, 3));
    statistics.densityThreshold = 0.1f;
    OperationList list = runtime->list();
    std::string why;
    ASSERT_EQ(list.add(forward, &why), VKATTN_OK) << why;
    ASSERT_EQ(list.add(statistics, &why), VKATTN_OK) << why;
    expectVerified(list);
}
