// Keys and values in pages on a device: every kernel, against the same keys one after the other, which give the same
// bits where these are not to depend on how work is cut.
#include "device/environment.hpp"

#include "conform/cases/case_text.hpp"
#include "support/extent.hpp"
#include "support/keys/pages.hpp"

#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

void compareDrawn(Runtime &runtime, const char *name, const Draws &draws, bool hostile, uint32_t slices = 0) {
    Random random = randomFor(name);
    int computed = 0, refused = 0;
    for (int n = 0; draws.take(n); ++n) {
        Case c = drawPages(random, hostile);
        c.deterministic = true, c.slices = slices;
        c.headDim = c.valueDim = 16; // few pipelines
        for (const vkattn_kernel kernel : KernelList()) {
            c.kernel = kernel;
            const bool matrices = kernel >= VKATTN_KERNEL_FLASH_COOPMAT;
            c.q = c.k = c.v = c.out = matrices ? VKATTN_F16 : VKATTN_F32;
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const Ran ran = runAndVerify(runtime, *data);
            if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) {
                ++refused;
                continue;
            }
            ASSERT_EQ(ran.wrong, "") << caseText(c);
            const Outputs expected = data->outputs();
            const ContiguousProblem contiguous(*data);
            const RunResult other = runtime.run(contiguous.problem, contiguous.operands);
            ASSERT_EQ(other.status, VKATTN_OK) << other.message << caseText(c);
            ++computed;
            EXPECT_EQ(std::memcmp(expected.out.data(), data->out.data(), data->out.bytes()), 0) << other.kernel << ": " << caseText(c);
        }
    }
    EXPECT_GT(computed, 0);
    std::printf("%d problems with pages, %d that a kernel does not take\n", computed, refused);
}

} // namespace

TEST(PagesOnDevice, haveTheBitsOfKeysOneAfterTheOther) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "pages", {6, 20}, false);
}

TEST(PagesOnDevice, hideTheKeysOfAbsentPages) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "absent pages", {6, 20}, true);
}

// Chunks of keys, of heads and of batch entries look up the whole table.
TEST(PagesOnDevice, areFoundFromEveryChunk) {
    Runtime *runtime = runtimeFor(Limits::tight);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "pages under tight limits", {4, 14}, false);
}

// Of a slice that has less than the keys of a row, chunks of keys begin anywhere in a page.
TEST(PagesOnDevice, areFoundByChunksOfKeys) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    compareDrawn(*runtime, "chunks of keys in pages", {5, 16}, false, 4000);
}

// One absent page, and keys enough for splits of which the later ones begin past the length.
TEST(PagesOnDevice, absentOnesLeaveSplitsPastTheLengthEmpty) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("absent pages before a length");
    for (const vkattn_kernel kernel : KernelList()) {
        Case c;
        c.batch = 1, c.heads = c.kvHeads = 2, c.queryTokens = 2, c.keyTokens = 2048, c.headDim = c.valueDim = 16;
        c.pageTokens = 16, c.lengths = true, c.kernel = kernel, c.poison = false; // lengths and pages change
        if (kernel >= VKATTN_KERNEL_FLASH_COOPMAT) c.q = c.k = c.v = c.out = VKATTN_F16;
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        data->lengths[0] = between(random, 100, 900);
        data->pages[between(random, 0, (data->lengths[0] - 1) / 16)] = 0xffffffffu;
        data->collectOperands();
        const Ran ran = runAndVerify(*runtime, *data);
        if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) continue;
        EXPECT_EQ(ran.wrong, "") << caseText(c);
    }
}
