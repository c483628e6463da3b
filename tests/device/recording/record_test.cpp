// vkattn::core on a device that the test owns: the problems that record refuses, and that nothing
// is compiled unless allowed.
#include "device/environment.hpp"
#include "device/host.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <thread>

using namespace vkattn;
using namespace vkattn::test;

TEST(Record, refusesWhatBreaksItsRules) {
    Host host;
    ASSERT_TRUE(host.ready) << host.why;
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_STAGED; // its workspace is what the numbers below are about
    vkattn_requirements requirements{};
    ASSERT_EQ(context.query(p, requirements, &why), VKATTN_OK) << why.message;
    EXPECT_STREQ(requirements.kernelName, "staged");
    EXPECT_EQ(requirements.workspaceBytes, 2u * 8 * 8 * 4);
    // No push descriptors were enabled.
    EXPECT_EQ(requirements.descriptorSetCount, requirements.dispatchCount);
    EXPECT_EQ(requirements.storageDescriptorCount, 4 * requirements.dispatchCount);

    const uint64_t bytes = 2 * 8 * 16 * 4, step = 4096;
    const std::vector<vkattn_binding> good = {{VKATTN_Q, host.buffer, 0, bytes},
                                              {VKATTN_K, host.buffer, step, bytes},
                                              {VKATTN_V, host.buffer, 2 * step, bytes},
                                              {VKATTN_OUT, host.buffer, 3 * step, bytes},
                                              {VKATTN_WORKSPACE, host.buffer, 4 * step, requirements.workspaceBytes}};
    const auto refused = [&](const std::string &expected, auto spoil, VkDescriptorPool pool) {
        std::vector<vkattn_binding> bindings = good;
        spoil(bindings);
        why = {};
        EXPECT_EQ(context.record(p, host.commands, bindings, pool, &why), VKATTN_ERROR_INVALID_ARGUMENT) << expected;
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused(
        "VK_KHR_push_descriptor is not listed in vkattn_host::enabledExtensions", [](auto &) {}, VK_NULL_HANDLE);
    refused(
        "workspace is not bound", [](auto &b) { b.pop_back(); }, host.descriptors);
    refused(
        "q is not bound", [](auto &b) { b.erase(b.begin()); }, host.descriptors);
    refused(
        "bound twice", [](auto &b) { b.push_back(b[1]); }, host.descriptors);
    refused(
        "expected at least", [](auto &b) { b[2].size -= 1; }, host.descriptors);
    refused(
        "VK_NULL_HANDLE", [](auto &b) { b[2].buffer = VK_NULL_HANDLE; }, host.descriptors);
    refused(
        "multiple of", [](auto &b) { b[3].offset += 2; }, host.descriptors);
    refused(
        "multiple of", [](auto &b) { b[4].offset += 4; }, host.descriptors);
    refused(
        "does not use",
        [](auto &b) {
            b.push_back({VKATTN_LSE, b[0].buffer, 0, 64});
        },
        host.descriptors);

    uint32_t pipelines = 0;
    why = {};
    EXPECT_EQ(context.record(p, host.commands, good, host.descriptors, &why), VKATTN_NOT_READY);
    EXPECT_NE(std::string(why.message).find("3 of the 3 pipelines of the staged kernel"), std::string::npos) << why.message;
    EXPECT_NE(std::string(why.message).find("call vkattnPrewarm"), std::string::npos) << why.message;
    vkattnCompileStatistics(context.handle(), &pipelines, nullptr);
    EXPECT_EQ(pipelines, 0u);
    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    vkattnCompileStatistics(context.handle(), &pipelines, nullptr);
    EXPECT_EQ(pipelines, requirements.pipelineCount);
    EXPECT_EQ(context.record(p, host.commands, good, host.descriptors, &why), VKATTN_OK) << why.message;

    // A pool that is too small is an error, not a crash. (Not every driver counts: Mesa 22 gives
    // more sets than a pool was made for.)
    fault = {"vkAllocateDescriptorSets", VK_ERROR_OUT_OF_POOL_MEMORY, 1, 1, false};
    EXPECT_EQ(context.record(p, host.commands, good, host.descriptors, &why), VKATTN_ERROR_OUT_OF_DEVICE_MEMORY);
    fault = {};
    EXPECT_EQ(why.vkResult, VK_ERROR_OUT_OF_POOL_MEMORY);
    EXPECT_NE(std::string(why.message).find("vkattn_requirements"), std::string::npos) << why.message;
}

// Operands lie at any multiple of their element's size, in one buffer, on a device without push
// descriptors; every byte between them stays.
TEST(Record, bindingOffsetsNeedNoMoreAlignmentThanTheirElements) {
    Host host;
    ASSERT_TRUE(host.ready) << host.why;
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    const vkattn_layout half = packed(VKATTN_F16, 1, 3, 11, 7);
    vkattn_problem p = problem(half, half, half, half);
    p.flags = VKATTN_CAUSAL;
    p.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    p.lse = packed(VKATTN_F32, 1, 3, 11, 1);
    const uint64_t bytes = 3 * 11 * 7 * 2, lseBytes = 3 * 11 * 4;
    vkattn_requirements requirements{};
    ASSERT_EQ(context.query(p, requirements, &why), VKATTN_OK) << why.message;
    // Odd numbers of halves from the start of the buffer, the outputs directly behind the inputs.
    const vkattn_binding bindings[] = {{VKATTN_Q, host.buffer, 2, bytes},
                                       {VKATTN_K, host.buffer, 2 + bytes, bytes},
                                       {VKATTN_V, host.buffer, 2 + 2 * bytes, bytes},
                                       {VKATTN_OUT, host.buffer, 2 + 3 * bytes, bytes},
                                       {VKATTN_KEY_LENGTHS, host.buffer, 4100, 4},
                                       {VKATTN_LSE, host.buffer, 4108, lseBytes},
                                       {VKATTN_WORKSPACE, host.buffer, 8192, requirements.workspaceBytes}};
    Random random = randomFor("offsets");
    std::vector<unsigned char> expected(16384);
    for (size_t n = 0; n < expected.size(); n += 2) { // halves between -1 and 1
        const auto value = static_cast<uint16_t>((random() & 0x83ffu) | ((8 + random() % 7) << 10));
        std::memcpy(expected.data() + n, &value, 2);
    }
    const uint32_t length = 9;
    std::memcpy(expected.data() + 4100, &length, 4);
    std::memcpy(host.mapped, expected.data(), expected.size());

    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    ASSERT_EQ(context.record(p, host.commands, bindings, host.descriptors, &why), VKATTN_OK) << why.message;
    ASSERT_TRUE(host.submitAndWait());

    std::vector<vkattn_operand_memory> operands;
    for (const vkattn_binding &binding : bindings)
        if (binding.role != VKATTN_WORKSPACE) operands.push_back({binding.role, host.mapped + binding.offset, binding.size});
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerify(&p, operands.data(), static_cast<uint32_t>(operands.size()), nullptr, &report, &why), VKATTN_OK)
        << why.message;
    EXPECT_TRUE(report.passed) << report.worstError << " " << report.worstBound;
    for (size_t n = 0; n < expected.size(); ++n) {
        const bool output = (n >= 2 + 3 * bytes && n < 2 + 4 * bytes) || (n >= 4108 && n < 4108 + lseBytes) ||
                            (n >= 8192 && n < 8192 + requirements.workspaceBytes);
        if (!output) {
            ASSERT_EQ(host.mapped[n], expected[n]) << "byte " << n;
        }
    }
}

// Q, K, V and the output take turns in one tensor, token by token: inputs stay as they were, also
// where an odd head dim makes a half of one share a word with a half of the output.
TEST(Record, operandsMayTakeTurnsInOneTensor) {
    constexpr uint32_t heads = 2, tokens = 9, dim = 5;
    vkattn_layout t = packedTokenMajor(VKATTN_F16, 1, heads, tokens, dim);
    t.strideElems[2] = 4 * heads * dim;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH}) {
        Host host;
        ASSERT_TRUE(host.ready) << host.why;
        Context context;
        vkattn_diagnostic why{};
        ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
        vkattn_problem p = problem(t, t, t, t);
        p.kernel = kernel;
        p.k.offsetElems = heads * dim, p.v.offsetElems = 2 * heads * dim, p.out.offsetElems = 3 * heads * dim;
        const uint64_t bytes = 2 * 4 * heads * dim * tokens;
        std::vector<uint16_t> expected(bytes / 2);
        Random random = randomFor("turns");
        for (uint16_t &value : expected) value = static_cast<uint16_t>((random() & 0x83ffu) | ((8 + random() % 7) << 10));
        std::memcpy(host.mapped, expected.data(), bytes);
        std::vector<vkattn_binding> bindings = {{VKATTN_WORKSPACE, host.buffer, 8192, 8192}};
        std::vector<vkattn_operand_memory> operands;
        for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) {
            bindings.push_back({role, host.buffer, 0, bytes});
            operands.push_back({role, host.mapped, bytes});
        }
        ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
        ASSERT_EQ(context.record(p, host.commands, bindings, host.descriptors, &why), VKATTN_OK) << why.message;
        ASSERT_TRUE(host.submitAndWait());
        vkattn_verify_report report{};
        ASSERT_EQ(vkattnCpuVerify(&p, operands.data(), 4, nullptr, &report, &why), VKATTN_OK) << why.message;
        EXPECT_TRUE(report.passed) << kernel << ": " << report.worstError << " " << report.worstBound;
        for (size_t n = 0; n < expected.size(); ++n) {
            uint16_t now = 0;
            std::memcpy(&now, host.mapped + 2 * n, 2);
            if (n % (4 * heads * dim) < 3 * heads * dim) {
                ASSERT_EQ(now, expected[n]) << "half " << n;
            }
        }
    }
}

// Small arrays lie at any multiple of 4, those of a ragged batch with every option included.
TEST(Record, arraysLieAtAnyWord) {
    Host host;
    ASSERT_TRUE(host.ready) << host.why;
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    const vkattn_layout t = packed(VKATTN_BF16, 1, 3, 11, 7);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_STAGED;
    p.flags = VKATTN_CAUSAL;
    p.sequences = 2;
    for (const vkattn_role role : {VKATTN_CU_SEQ_Q, VKATTN_CU_SEQ_K, VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K, VKATTN_SINKS, VKATTN_ALIBI_SLOPES})
        p.presentRoles |= VKATTN_PRESENT(role);
    p.bitMask = packed(VKATTN_BITS32, 2, 3, 11, 1);
    p.lse = packed(VKATTN_F32, 1, 3, 11, 1);
    vkattn_requirements requirements{};
    ASSERT_EQ(context.query(p, requirements, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(requirements.dispatchCount, 8u);
    EXPECT_EQ(requirements.storageDescriptorCount, 4 * requirements.dispatchCount);
    constexpr uint64_t tableBytes = 4 * (64 + 2 * 8); // a header, and two sequences
    EXPECT_EQ(requirements.workspaceBytes,
              requirements.workspaceAlignment * ((tableBytes + requirements.workspaceAlignment - 1) / requirements.workspaceAlignment) +
                  2u * 3 * 11 * 12 * 4);
    const uint64_t bytes = 3 * 11 * 7 * 2;
    std::vector<vkattn_binding> bindings;
    uint64_t at = 2;
    const auto add = [&](vkattn_role role, uint64_t size) {
        bindings.push_back({role, host.buffer, at, size});
        at += size;
    };
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) add(role, bytes);
    at = (at + 7) / 8 * 8 + 4;
    add(VKATTN_LSE, 3 * 11 * 4);
    add(VKATTN_BIT_MASK, 2 * 3 * 11 * 4);
    const std::pair<vkattn_role, std::vector<uint32_t>> arrays[] = {
        {VKATTN_CU_SEQ_Q, {1, 6, 10}},
        {VKATTN_CU_SEQ_K, {0, 4, 0xfffffff0u}},
        {VKATTN_DOC_IDS_Q, {1, 1, 2, 2, 1, 1, 1, 2, 2, 2, 1}},
        {VKATTN_DOC_IDS_K, {1, 2, 2, 1, 1, 2, 1, 2, 2, 1, 1}},
        {VKATTN_SINKS, {std::bit_cast<uint32_t>(0.5f), 0xff800000u, std::bit_cast<uint32_t>(-1.0f)}},
        {VKATTN_ALIBI_SLOPES, {std::bit_cast<uint32_t>(0.5f), 0, std::bit_cast<uint32_t>(0.125f)}}};
    Random random = randomFor("arrays");
    std::vector<unsigned char> expected(32768);
    for (size_t n = 0; n < expected.size(); n += 2) { // bf16 between 2^-7 and 2
        const auto value = static_cast<uint16_t>((random() & 0x807fu) | ((120 + random() % 8) << 7));
        std::memcpy(expected.data() + n, &value, 2);
    }
    for (const auto &[role, values] : arrays) {
        std::memcpy(expected.data() + at, values.data(), values.size() * 4);
        add(role, values.size() * 4);
    }
    ASSERT_LT(at, 16384u);
    at = 16384;
    add(VKATTN_WORKSPACE, requirements.workspaceBytes);
    ASSERT_LE(at, expected.size());
    std::memcpy(host.mapped, expected.data(), expected.size());

    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    ASSERT_EQ(context.record(p, host.commands, bindings, host.descriptors, &why), VKATTN_OK) << why.message;
    ASSERT_TRUE(host.submitAndWait());
    std::vector<vkattn_operand_memory> operands;
    std::vector<bool> written(expected.size());
    for (const vkattn_binding &binding : bindings) {
        if (binding.role != VKATTN_WORKSPACE) operands.push_back({binding.role, host.mapped + binding.offset, binding.size});
        if (binding.role == VKATTN_OUT || binding.role == VKATTN_LSE || binding.role == VKATTN_WORKSPACE)
            for (uint64_t n = 0; n < binding.size; ++n) written[binding.offset + n] = true;
    }
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerify(&p, operands.data(), static_cast<uint32_t>(operands.size()), nullptr, &report, &why), VKATTN_OK)
        << why.message;
    EXPECT_TRUE(report.passed) << report.worstError << " " << report.worstBound;
    for (size_t n = 0; n < expected.size(); ++n)
        if (!written[n]) {
            ASSERT_EQ(host.mapped[n], expected[n]) << "byte " << n;
        }
}

namespace {

// Counts what the library takes from the host's allocator.
struct Counter {
    std::atomic<int> live = 0, total = 0;
    VkAllocationCallbacks callbacks{this, allocate, reallocate, release, nullptr, nullptr};
    static VKAPI_ATTR void *VKAPI_CALL allocate(void *user, size_t size, size_t alignment, VkSystemAllocationScope) {
        auto *counter = static_cast<Counter *>(user);
        ++counter->live, ++counter->total;
        return std::aligned_alloc(std::max<size_t>(alignment, 16), (size + 63) / 64 * 64);
    }
    static VKAPI_ATTR void *VKAPI_CALL reallocate(void *user, void *old, size_t size, size_t alignment, VkSystemAllocationScope scope) {
        if (size == 0) return release(user, old), nullptr;
        void *fresh = allocate(user, size, alignment, scope);
        if (old) std::memcpy(fresh, old, std::min(size, malloc_usable_size(old)));
        release(user, old);
        return fresh;
    }
    static VKAPI_ATTR void VKAPI_CALL release(void *user, void *memory) {
        if (!memory) return;
        --static_cast<Counter *>(user)->live;
        std::free(memory);
    }
};

} // namespace

TEST(Record, usesTheHostsAllocatorAndPipelineCache) {
    Host host;
    ASSERT_TRUE(host.ready) << host.why;
    VkPipelineCacheCreateInfo cacheInfo{};
    cacheInfo.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    VkPipelineCache cache = VK_NULL_HANDLE;
    ASSERT_EQ(vkCreatePipelineCache(host.device, &cacheInfo, nullptr, &cache), VK_SUCCESS);
    Counter counter;
    {
        vkattn_host own = host.host;
        own.allocator = &counter.callbacks;
        own.pipelineCache = cache;
        Context context;
        vkattn_diagnostic why{};
        ASSERT_EQ(context.create(own, &why), VKATTN_OK) << why.message;
        const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16);
        const vkattn_problem p = problem(t, t, t, t);
        ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
        EXPECT_GT(counter.total, 0);
        vkattn_caps caps{};
        caps.structSize = sizeof caps;
        ASSERT_EQ(vkattnContextCaps(context.handle(), &caps), VKATTN_OK);
        EXPECT_GE(caps.maxStorageBuffersPerStage, 4u);
        EXPECT_EQ(caps.pushDescriptors, 0u);
    }
    EXPECT_EQ(counter.live, 0);
    vkDestroyPipelineCache(host.device, cache, nullptr);
}

// Threads that compile the same pipelines at the same time: one of each stays, nothing leaks, every
// record finds them.
TEST(Record, threadsCompileTheSamePipelines) {
    Host host;
    ASSERT_TRUE(host.ready) << host.why;
    Counter counter;
    {
        vkattn_host own = host.host;
        own.allocator = &counter.callbacks;
        Context context;
        vkattn_diagnostic why{};
        ASSERT_EQ(context.create(own, &why), VKATTN_OK) << why.message;
        std::vector<vkattn_problem> problems;
        for (const vkattn_dtype dtype : {VKATTN_F32, VKATTN_BF16}) {
            const vkattn_layout t = packed(dtype, 1, 2, 8, 16);
            problems.push_back(problem(t, t, t, t));
            problems.push_back(problem(t, t, t, t));
            problems.back().softcap = 2;
        }
        std::atomic<int> failures{0};
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; ++n) threads.emplace_back([&] { failures += context.prewarm(problems, nullptr) != VKATTN_OK; });
        for (std::thread &thread : threads) thread.join();
        EXPECT_EQ(failures, 0);
        uint32_t compiled = 0, again = 0;
        vkattnCompileStatistics(context.handle(), &compiled, nullptr);
        // Scores with and without softcap, values; the softmax is one.
        EXPECT_GE(compiled, 2u * 3 + 1);
        ASSERT_EQ(context.prewarm(problems, &why), VKATTN_OK) << why.message;
        vkattnCompileStatistics(context.handle(), &again, nullptr);
        EXPECT_EQ(again, compiled);
    }
    EXPECT_EQ(counter.live, 0);
}

TEST(Record, contextsRefuseWhatTheyCannotUse) {
    Host host;
    ASSERT_TRUE(host.ready) << host.why;
    Context context;
    vkattn_diagnostic why{};
    vkattn_host bad = host.host;
    bad.device = VK_NULL_HANDLE;
    EXPECT_EQ(context.create(bad, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_FALSE(context);
    vkattn_caps caps{};
    caps.structSize = sizeof caps; // a device with no limits at all
    bad = host.host;
    bad.capsLimit = &caps;
    EXPECT_EQ(context.create(bad, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("maxPerStageDescriptorStorageBuffers"), std::string::npos) << why.message;
}
