// Verdicts and the self-test on a Vulkan that computes nothing: the calls that are refused, the
// commands that are recorded, and that nothing is taken from the heap.
#include "support/case.hpp"
#include "support/heap_count.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

class Verdicts : public testing::Test {
  protected:
    FakeVulkan fake;
    Context context;
    vkattn_diagnostic why{};

    void open(const vkattn_caps *limit = nullptr) {
        fake.subgroups.subgroupSize = 32;
        vkattn_host host = fake.host();
        host.capsLimit = limit;
        ASSERT_EQ(context.create(host, &why), VKATTN_OK) << why.message;
    }
    [[nodiscard]] vkattn_caps caps() const {
        vkattn_caps caps{};
        EXPECT_EQ(context.caps(caps), VKATTN_OK);
        return caps;
    }
    [[nodiscard]] std::string kernelFor(vkattn_kernel kernel, uint32_t queries) {
        const vkattn_layout rows = packed(VKATTN_F32, 1, 2, queries, 32), columns = packed(VKATTN_F32, 1, 2, 64, 32);
        vkattn_problem p = problem(rows, columns, columns, rows);
        p.kernel = kernel;
        vkattn_requirements needs{};
        return context.query(p, needs, &why) == VKATTN_OK ? needs.kernelName : "refused";
    }
    // Of the keys of a problem's pipelines.
    [[nodiscard]] uint64_t keysOf(const vkattn_caps &of, const vkattn_problem &p) {
        vkattn_dispatch_list list{};
        EXPECT_EQ(measureDispatches(of, p, list, planOptions(0), &why), VKATTN_OK) << why.message;
        std::vector<std::byte> scratch(list.scratchBytes);
        EXPECT_EQ(listDispatches(of, p, scratch, list, planOptions(0), &why), VKATTN_OK) << why.message;
        uint64_t key = 0;
        for (uint32_t n = 0; n < list.dispatchCount; ++n) key = key * 31 + list.dispatches[n].pipelineKey;
        return key;
    }
    void refused(vkattn_result result, const char *expected) const {
        EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT) << expected;
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    }
};

} // namespace

TEST_F(Verdicts, stopWhatIsWrongAndPassOverWhatIsSlow) {
    open();
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 64), "flash");
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 1), "decode");
    ASSERT_EQ(context.setVerdict(VKATTN_KERNEL_DECODE, VKATTN_VERDICT_SLOW), VKATTN_OK);
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 1), "flash");
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_DECODE, 1), "decode") << "slow is not refused";
    ASSERT_EQ(context.setVerdict(VKATTN_KERNEL_FLASH, VKATTN_VERDICT_WRONG), VKATTN_OK);
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 1), "staged");
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 64), "staged");
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_STAGED, 64), "staged");
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_FLASH, 64), "refused");
    EXPECT_NE(std::string(why.message).find("self-test of the flash kernel failed"), std::string::npos) << why.message;
    EXPECT_EQ(caps().wrongKernels, 1u << VKATTN_KERNEL_FLASH);
    EXPECT_EQ(caps().slowKernels, 1u << VKATTN_KERNEL_DECODE);

    // Caps carry them: into an explanation, a list of dispatches, another context.
    const vkattn_caps shown = caps();
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 64, 32);
    vkattn_problem p = problem(t, t, t, t);
    vkattn_explanation explanation{};
    explanation.structSize = sizeof explanation;
    ASSERT_EQ(explain(shown, p, explanation, planOptions(0), &why), VKATTN_OK) << why.message;
    EXPECT_EQ(explanation.kernel, VKATTN_KERNEL_STAGED);
    EXPECT_EQ(vkattnExplainKernel(&shown, nullptr, &p, VKATTN_KERNEL_FLASH, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("self-test"), std::string::npos);
    EXPECT_EQ(vkattnExplainKernel(&shown, nullptr, &p, VKATTN_KERNEL_STAGED, &why), VKATTN_OK);
    EXPECT_STREQ(why.message, "");
    for (const vkattn_kernel none : {VKATTN_KERNEL_AUTO, static_cast<vkattn_kernel>(15), VKATTN_KERNEL_MAX}) {
        EXPECT_EQ(vkattnExplainKernel(&shown, nullptr, &p, none, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(vkattnKernelSupport(&shown, none, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(vkattnKernelTraits(none), 0u);
    }
    p.kernel = VKATTN_KERNEL_FLASH;
    vkattn_dispatch_list list{};
    EXPECT_EQ(measureDispatches(shown, p, list, planOptions(0), &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_EQ(vkattnKernelSupport(&shown, VKATTN_KERNEL_FLASH, &why), VKATTN_ERROR_UNSUPPORTED);
    open(&shown);
    EXPECT_EQ(caps().wrongKernels, 1u << VKATTN_KERNEL_FLASH);
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 64), "staged");

    // The last word counts, also over the host's own caps.
    ASSERT_EQ(context.setVerdict(VKATTN_KERNEL_FLASH, VKATTN_VERDICT_SLOW), VKATTN_OK);
    EXPECT_EQ(caps().wrongKernels, 0u);
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_FLASH, 64), "flash");
    ASSERT_EQ(context.setVerdict(VKATTN_KERNEL_FLASH, VKATTN_VERDICT_TRUSTED), VKATTN_OK);
    ASSERT_EQ(context.setVerdict(VKATTN_KERNEL_DECODE, VKATTN_VERDICT_TRUSTED), VKATTN_OK);
    EXPECT_EQ(caps().wrongKernels | caps().slowKernels, 0u);
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 64), "flash");
    EXPECT_EQ(kernelFor(VKATTN_KERNEL_AUTO, 1), "decode");
}

// The pipelines that unpack keys and values of f16 are others, from the next plan on; those of f32 and bf16 stay.
TEST_F(Verdicts, onHalvesChooseHowTheyAreUnpacked) {
    const auto unpacks = [&](vkattn_dtype k, vkattn_dtype v, vkattn_kernel kernel) {
        const vkattn_layout rows = packed(VKATTN_F32, 1, 2, 1, 64);
        vkattn_problem p = problem(rows, packed(k, 1, 2, 64, 64), packed(v, 1, 2, 64, 64), rows);
        p.kernel = kernel;
        vkattn_explanation explanation{};
        explanation.structSize = sizeof explanation;
        EXPECT_EQ(explain(caps(), p, explanation, planOptions(0), &why), VKATTN_OK) << why.message;
        return explanation.unpacksHalves;
    };
    open();
    EXPECT_EQ(caps().exactHalves, 0u);
    EXPECT_EQ(unpacks(VKATTN_F16, VKATTN_F16, VKATTN_KERNEL_DECODE), 0u);
    ASSERT_EQ(context.setExactHalves(true, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(caps().exactHalves, 1u);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_DECODE, VKATTN_KERNEL_FLASH}) {
        EXPECT_EQ(unpacks(VKATTN_F16, VKATTN_F16, kernel), 1u);
        EXPECT_EQ(unpacks(VKATTN_F32, VKATTN_F16, kernel), 1u);
        EXPECT_EQ(unpacks(VKATTN_F16, VKATTN_Q8_0, kernel), 1u);
        EXPECT_EQ(unpacks(VKATTN_BF16, VKATTN_F32, kernel), 0u);
    }
    EXPECT_EQ(unpacks(VKATTN_F16, VKATTN_F16, VKATTN_KERNEL_STAGED), 0u);
    // A list of dispatches made with such caps has the pipeline of the context.
    const vkattn_layout rows = packed(VKATTN_F32, 1, 2, 1, 64), halves = packed(VKATTN_F16, 1, 2, 64, 64);
    vkattn_problem p = problem(rows, halves, halves, rows);
    vkattn_caps integers = caps();
    integers.exactHalves = 0;
    EXPECT_NE(keysOf(caps(), p), keysOf(integers, p));
    ASSERT_EQ(context.setExactHalves(false, &why), VKATTN_OK);
    EXPECT_EQ(caps().exactHalves, 0u);
    EXPECT_EQ(keysOf(caps(), p), keysOf(integers, p));

    refused(vkattnSetExactHalves(nullptr, 1, &why), "context is NULL");
    refused(vkattnSetExactHalves(context.handle(), 2, &why), "exact is 2, expected 0 or 1");
    vkattn_caps limit = caps(); // of which exactHalves is 0
    open(&limit);
    refused(context.setExactHalves(true, &why), "host.capsLimit");
    EXPECT_EQ(context.setExactHalves(false, &why), VKATTN_OK);
    limit.exactHalves = 1;
    open(&limit);
    EXPECT_EQ(caps().exactHalves, 0u) << "a limit says nothing of the device";
    EXPECT_EQ(context.setExactHalves(true, &why), VKATTN_OK);
    EXPECT_EQ(caps().exactHalves, 1u);
}

TEST_F(Verdicts, callsThatBreakTheRulesAreRefused) {
    open();
    const vkattn_kernel flash = VKATTN_KERNEL_FLASH;
    vkattn_self_test needs{};
    unsigned char memory[4] = {};
    FakeCommands commands;
    vkattn_verdict verdict{};
    const auto buffer = reinterpret_cast<VkBuffer>(uintptr_t{64});
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_STAGED, static_cast<vkattn_kernel>(15), VKATTN_KERNEL_MAX}) {
        refused(context.setVerdict(kernel, VKATTN_VERDICT_WRONG, &why), "baseline");
        refused(context.selfTestQuery(kernel, needs, &why), "baseline");
        refused(context.selfTestFill(kernel, memory, &why), "baseline");
        refused(context.selfTestRecord(kernel, commands.handle(), buffer, 0, VK_NULL_HANDLE, &why), "baseline");
        refused(context.selfTestJudge(kernel, memory, verdict, &why), "baseline");
    }
    refused(vkattnSetVerdict(nullptr, flash, VKATTN_VERDICT_WRONG, &why), "context is NULL");
    refused(context.setVerdict(flash, static_cast<vkattn_verdict>(3), &why), "verdict is 3");
    refused(vkattnSelfTestQuery(context.handle(), flash, nullptr, &why), "out is NULL");
    needs.structSize = 1;
    refused(vkattnSelfTestQuery(context.handle(), flash, &needs, &why), "structSize");
    refused(context.selfTestFill(flash, nullptr, &why), "mapped is NULL");
    refused(context.selfTestRecord(flash, VK_NULL_HANDLE, buffer, 0, VK_NULL_HANDLE, &why), "commandBuffer");
    refused(context.selfTestRecord(flash, commands.handle(), VK_NULL_HANDLE, 0, VK_NULL_HANDLE, &why), "buffer");
    refused(context.selfTestRecord(flash, commands.handle(), buffer, 4, VK_NULL_HANDLE, &why), "bufferAlignment = 256");
    refused(vkattnSelfTestJudge(context.handle(), flash, memory, nullptr, &why), "verdict");
    refused(vkattnSelfTestJudge(context.handle(), flash, nullptr, &verdict, &why), "mapped");
    EXPECT_TRUE(commands.dispatches.empty());
    EXPECT_EQ(caps().wrongKernels, 0u);
    // The fake has no matrix units.
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_KERNEL_FLASH_COOPMAT2}) {
        why = {};
        EXPECT_EQ(context.selfTestQuery(kernel, needs, &why), VKATTN_ERROR_UNSUPPORTED);
        EXPECT_NE(why.message[0], '\0');
        EXPECT_EQ(context.selfTestFill(kernel, memory, &why), VKATTN_ERROR_UNSUPPORTED);
        EXPECT_EQ(context.selfTestRecord(kernel, commands.handle(), buffer, 0, VK_NULL_HANDLE, &why), VKATTN_ERROR_UNSUPPORTED);
        EXPECT_EQ(context.selfTestJudge(kernel, memory, verdict, &why), VKATTN_ERROR_UNSUPPORTED);
    }
}

TEST_F(Verdicts, aDeviceThatComputesNothingFails) {
    for (const bool pushDescriptors : {true, false})
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            fake.pushDescriptors = pushDescriptors;
            open();
            vkattn_self_test needs{};
            ASSERT_EQ(context.selfTestQuery(kernel, needs, &why), VKATTN_OK) << why.message;
            EXPECT_EQ(needs.descriptorSetCount == 0, pushDescriptors);
            std::vector<unsigned char> memory(needs.bufferBytes + 64, 0xab);
            ASSERT_EQ(context.selfTestFill(kernel, memory.data(), &why), VKATTN_OK) << why.message;
            EXPECT_EQ(memory[needs.bufferBytes], 0xab) << "past the end";
            std::vector<unsigned char> again(needs.bufferBytes, 0);
            ASSERT_EQ(context.selfTestFill(kernel, again.data(), &why), VKATTN_OK);
            EXPECT_TRUE(std::equal(again.begin(), again.end(), memory.begin())) << "the inputs are fixed";

            FakePool pool(needs.descriptorSetCount, needs.storageDescriptorCount);
            FakeCommands first, second(100);
            const auto buffer = reinterpret_cast<VkBuffer>(uintptr_t{64});
            const VkDescriptorPool handle = pushDescriptors ? VK_NULL_HANDLE : pool.handle();
            ASSERT_EQ(context.selfTestRecord(kernel, first.handle(), buffer, 512, handle, &why), VKATTN_OK) << why.message;
            EXPECT_EQ(first.error, nullptr) << first.error;
            EXPECT_GT(first.dispatches.size(), 10u);
            EXPECT_EQ(pool.descriptorsLeft, 0u);
            EXPECT_EQ(pool.taken, needs.descriptorSetCount);
            EXPECT_EQ(first.next.barriers, 0u) << "after the last dispatch";
            EXPECT_EQ(first.hostBarriers, 1u);
            for (size_t n = 0; n < first.dispatches.size(); ++n) {
                const FakeDispatch &d = first.dispatches[n];
                EXPECT_EQ(d.barriers > 0, n > 0) << "they share a workspace";
                for (uint32_t o = 0; o < d.descriptorCount; ++o) {
                    EXPECT_EQ(d.descriptors[o].buffer, buffer);
                    EXPECT_LE(d.descriptors[o].offset + d.descriptors[o].range, 512 + needs.bufferBytes);
                }
            }
            if (countsHeap() && pushDescriptors) { // with everything compiled
                const uint64_t before = heapAllocations();
                ASSERT_EQ(context.selfTestRecord(kernel, second.handle(), buffer, 0, handle, &why), VKATTN_OK);
                EXPECT_EQ(heapAllocations() - before, 0u);
            }
            vkattn_verdict verdict = VKATTN_VERDICT_TRUSTED;
            why = {};
            ASSERT_EQ(context.selfTestJudge(kernel, memory.data(), verdict, &why), VKATTN_OK);
            EXPECT_EQ(verdict, VKATTN_VERDICT_WRONG);
            EXPECT_NE(std::string(why.message).find("head dim 64"), std::string::npos) << why.message;
            EXPECT_EQ(caps().wrongKernels, 1u << kernel);
            EXPECT_EQ(context.selfTestQuery(kernel, needs, &why), VKATTN_ERROR_UNSUPPORTED) << "quarantined";
            EXPECT_EQ(fake.error.load(), nullptr) << fake.error.load();
        }
}
