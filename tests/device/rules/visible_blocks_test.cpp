// Lists of visible blocks on the device: drawn cases against the oracle; attention that reads them, which has
// the bits of attention that does not.
#include "conform/statistics/statistics_case.hpp"
#include "conform/visible_blocks/visible_blocks_case.hpp"
#include "device/environment.hpp"
#include "support/extent.hpp"

#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

bool takesLists() {
    const DeviceInfo *device = bench().device();
    return device && device->caps.maxStorageBuffersPerStage >= 11;
}
#define SKIP_WITHOUT_BUFFERS()                                                                                                             \
    if (!takesLists()) GTEST_SKIP() << "the device has fewer than the 11 storage buffers a stage that the lists need"

// Returns what is wrong; the lists are in the case.
std::string runAndVerify(Runtime &runtime, VisibleBlocksCase &v) {
    const VisibleBlocksCase before = v;
    const RunResult result = runtime.run(v.operation(), v.operands());
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    if (!result.fallbackReason.empty()) return "the CPU computed: " + result.fallbackReason;
    return v.wrong(before);
}

// Several problems for each pipeline.
void expectDrawnCasesPass(Runtime &runtime, const char *name, const Draws &draws, bool tight) {
    Random random = randomFor(name);
    int refused = 0, all = 0;
    Case c;
    for (int n = 0; draws.take(n); ++n) {
        c = n % 6 == 0 ? randomCase(random, 5) : samePipelines(random, c);
        VisibleBlocksCase v = drawVisibleBlocks(random, c);
        const std::string wrong = runAndVerify(runtime, v);
        ++all;
        if (tight && wrong.rfind("status -2", 0) == 0)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << v.text();
    }
    EXPECT_LT(refused, all / 3 + 4);
    std::printf("%d drawn lists, %d over the limits\n", all, refused);
}

} // namespace

TEST(VisibleBlocksOnDevice, areThoseOfTheOracle) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "visible blocks", {36, 400}, false);
}

TEST(VisibleBlocksOnDevice, areCutToMeetTightLimits) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    expectDrawnCasesPass(*runtime, "visible blocks under tight limits", {24, 400}, true);
}

// Chunks of keys go on with the lists of the chunk before: so many columns that one dispatch may not have them.
TEST(VisibleBlocksOnDevice, goOnFromChunkToChunk) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("long lists");
    Case c;
    c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 300, c.keyTokens = 90000, c.headDim = c.valueDim = 4;
    c.documents = Documents::runs;
    c.poison = false;
    VisibleBlocksCase v = drawVisibleBlocks(random, c);
    v.blocks.blocks.queries = 150, v.blocks.blocks.keys = 128;
    const vkattn_operation o = v.operation();
    for (uint32_t n = 0; n < 4; ++n)
        if (const uint64_t bytes = vkattnOperationBytes(&o, static_cast<vkattn_role>(VKATTN_BLOCK_COUNTS + n)))
            v.lists[n].assign(bytes / 4 + 16, 7);
    const VisibleBlocksCase before = v;
    const RunResult result = runtime->run(v.operation(), v.operands());
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    EXPECT_GT(result.dispatchCount, 3u);
    EXPECT_EQ(v.wrong(before), "") << v.text();
}

// Skipping changes no bit of a deterministic result.
TEST(VisibleBlocksOnDevice, changeNoBitOfAttention) {
    SKIP_WITHOUT_BUFFERS();
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("attention with lists");
    const Draws draws{10, 100};
    int computed = 0;
    for (int n = 0; draws.take(n); ++n) {
        Case c = randomCase(random, 5);
        c.deterministic = true, c.blocks = Blocks::none, c.slices = 0;
        c.queryTokens = between(random, 1, 60), c.keyTokens = between(random, 1, 200);
        VisibleBlocksCase v = drawVisibleBlocks(random, c);
        ASSERT_EQ(runAndVerify(*runtime, v), "") << v.text();
        const RunResult without = runtime->run(v.data->problem, v.data->operands);
        ASSERT_EQ(without.status, VKATTN_OK) << without.message << "; " << v.text();
        const Outputs expected = v.data->outputs();
        const RunResult with = runtime->run(v.listed(), v.listedOperands());
        ASSERT_EQ(with.status, VKATTN_OK) << with.message << "; " << v.text();
        if (without.kernel != with.kernel) continue; // AUTO may choose another one
        ++computed;
        EXPECT_EQ(std::memcmp(expected.out.data(), v.data->out.data(), v.data->out.bytes()), 0) << v.text();
    }
    EXPECT_GT(computed, 3);
}
