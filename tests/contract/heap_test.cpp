// vkattnRecord and vkattnRecordOperation take nothing from the heap, for every kernel, every kind of
// option and every other operation. A context
// takes memory only through the host's callbacks, where there are some, and gives all of it back.
#include "conform/cases/operation_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "support/case.hpp"
#include "support/core_steps.hpp"
#include "support/heap_count.hpp"
#include "support/vulkan/counting_allocator.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <map>
#include <optional>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Bound {
    std::vector<vkattn_binding> bindings;
    Bound(const vkattn_operation &operation, const vkattn_requirements &needs) {
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
            const auto role = static_cast<vkattn_role>(n);
            const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperationBytes(&operation, role);
            if (bytes) bindings.push_back({role, reinterpret_cast<VkBuffer>(uintptr_t{0x1000} + n), 0, bytes});
        }
    }
};

vkattn_record recordInto(FakeCommands &commands, const Bound &bound, FakePool *pool) {
    vkattn_record record{};
    record.structSize = sizeof record;
    record.commandBuffer = commands.handle();
    record.bindings = bound.bindings.data();
    record.bindingCount = static_cast<uint32_t>(bound.bindings.size());
    if (pool) record.descriptorPool = pool->handle();
    return record;
}

// A device, and a context whose memory is counted.
struct Recording {
    CountingAllocator allocator;
    FakeVulkan fake;
    Context context;

    explicit Recording(bool cpu, bool pushDescriptors, const vkattn_caps *limit = nullptr) {
        fake.properties.deviceType = cpu ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
        fake.subgroups.subgroupSize = cpu ? 8 : 32;
        fake.pushDescriptors = pushDescriptors;
        vkattn_host host = fake.host();
        host.allocator = &allocator.callbacks;
        host.capsLimit = limit;
        host.maxWorkspaceBytes = 1 << 16; // some are cut into chunks
        EXPECT_EQ(context.create(host), VKATTN_OK);
    }
    ~Recording() {
        context.reset();
        EXPECT_EQ(allocator.live(), 0u) << allocator.live() << " allocations were not given back";
    }
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    // Returns false where the device refuses the operation.
    bool expectNothingTaken(const vkattn_operation &operation, const std::string &name, vkattn_requirements &needs);
};

bool Recording::expectNothingTaken(const vkattn_operation &operation, const std::string &name, vkattn_requirements &needs) {
    vkattn_diagnostic why{};
    const vkattn_result prewarmed = context.prewarm({&operation, 1}, &why);
    uint64_t before = heapAllocations();
    EXPECT_EQ(context.query(operation, needs, &why), prewarmed == VKATTN_OK ? VKATTN_OK : VKATTN_ERROR_UNSUPPORTED) << name << why.message;
    EXPECT_EQ(heapAllocations() - before, 0u) << name;
    if (prewarmed != VKATTN_OK) return false;
    const Bound bound(operation, needs);
    FakeCommands commands(2 * needs.dispatchCount + size_t{1});
    FakePool pool(2 * needs.descriptorSetCount, 2 * needs.storageDescriptorCount);
    vkattn_record record = recordInto(commands, bound, fake.pushDescriptors ? nullptr : &pool);
    before = heapAllocations();
    const uint64_t calls = allocator.calls();
    EXPECT_EQ(vkattnRecordOperation(context.handle(), &operation, &record, &why), VKATTN_OK) << name << why.message;
    record.allowCompile = 1; // nothing is left to compile
    EXPECT_EQ(vkattnRecordOperation(context.handle(), &operation, &record, &why), VKATTN_OK) << name << why.message;
    record.bindingCount = 0; // without rows there is nothing to bind
    EXPECT_EQ(vkattnRecordOperation(context.handle(), &operation, &record, &why),
              bound.bindings.empty() ? VKATTN_OK : VKATTN_ERROR_INVALID_ARGUMENT)
        << name;
    EXPECT_EQ(heapAllocations() - before, 0u) << name;
    EXPECT_EQ(allocator.calls(), calls) << name;
    EXPECT_EQ(commands.dispatches.size(), 2 * needs.dispatchCount) << name;
    EXPECT_EQ(commands.error, nullptr) << name << commands.error;
    return true;
}

} // namespace

// A count that stays zero whatever happens would prove nothing.
TEST(Heap, isCounted) {
    if (!countsHeap()) GTEST_SKIP() << "a sanitizer has the heap";
    uint64_t before = heapAllocations();
    ::operator delete(::operator new(10)); // called by name: not to be optimised away
    EXPECT_EQ(heapAllocations() - before, countsMalloc() ? 2u : 1u);
    if (!countsMalloc()) return;
    before = heapAllocations();
    void *volatile plain = std::malloc(10);
    std::free(plain);
    EXPECT_GE(heapAllocations() - before, 1u);
    // Without callbacks core takes malloc.
    FakeVulkan fake;
    Context context;
    before = heapAllocations();
    ASSERT_EQ(context.create(fake.host()), VKATTN_OK);
    EXPECT_GE(heapAllocations() - before, 1u);
}

TEST(Heap, isNotTouchedByRecording) {
    if (!countsHeap()) GTEST_SKIP() << "a sanitizer has the heap";
    Random random = randomFor("heap");
    std::map<vkattn_kernel, uint32_t> recorded;
    uint32_t refused = 0;
    std::vector<Case> cases = caseMatrix(random, true);
    for (const bool cpu : {false, true})
        for (const bool pushDescriptors : {true, false}) {
            Recording on(cpu, pushDescriptors);
            for (Case &c : cases) {
                c.kernel = anyKernel(random);
                const auto instance = makeCaseData(c, random);
                vkattn_requirements needs{};
                if (!on.expectNothingTaken(operation(instance->problem), c.name, needs)) {
                    ++refused;
                    continue;
                }
                EXPECT_STREQ(needs.kernelName, vkattnKernelName(needs.kernel)) << c.name;
                ++recorded[needs.kernel];
            }
        }
    std::printf("recorded without an allocation: %u staged, %u flash, %u decode; %u refused\n", recorded[VKATTN_KERNEL_STAGED],
                recorded[VKATTN_KERNEL_FLASH], recorded[VKATTN_KERNEL_DECODE], refused);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) EXPECT_GT(recorded[kernel], 500u);
}

TEST(Heap, isNotTouchedByRecordingOtherOperations) {
    if (!countsHeap()) GTEST_SKIP() << "a sanitizer has the heap";
    Random random = randomFor("heap of operations");
    vkattn_caps weak{};
    weak.structSize = sizeof weak;
    ASSERT_EQ(vkattnMinimumCaps(&weak, nullptr), VKATTN_OK);
    weak.maxStorageBufferRange = 1 << 16; // some are cut into boxes
    uint32_t recorded = 0, refused = 0, steps = 0;
    for (const vkattn_caps *const limit : {static_cast<const vkattn_caps *>(nullptr), static_cast<const vkattn_caps *>(&weak)})
        for (const bool pushDescriptors : {true, false}) {
            weak.pushDescriptors = pushDescriptors;
            Recording on(limit == nullptr, pushDescriptors, limit);
            for (int n = 0; n < 250; ++n) {
                OperationCase drawn = drawOperation(random, otherKind(n));
                vkattn_requirements needs{};
                if (!on.expectNothingTaken(drawn.operation(), drawn.text(), needs)) {
                    ++refused;
                    continue;
                }
                ++recorded;
                steps += needs.dispatchCount > needs.chunkCount;
            }
        }
    std::printf("%u operations recorded without an allocation, %u of them in several steps; %u refused\n", recorded, steps, refused);
    EXPECT_GT(recorded, 600u);
    EXPECT_GT(steps, 50u);
}

TEST(Heap, isNotTouchedByRecordingStatistics) {
    if (!countsHeap()) GTEST_SKIP() << "a sanitizer has the heap";
    Random random = randomFor("heap of statistics");
    uint32_t recorded = 0, chunked = 0;
    for (const bool cpu : {false, true})
        for (const bool pushDescriptors : {true, false}) {
            Recording on(cpu, pushDescriptors);
            for (int n = 0; n < 60; ++n) {
                StatisticsCase drawn = drawStatistics(random, randomCase(random, 5), drawStatisticsOptions(random));
                vkattn_requirements needs{};
                EXPECT_TRUE(on.expectNothingTaken(drawn.operation(), drawn.text(), needs)) << drawn.text();
                ++recorded;
                chunked += needs.dispatchCount > 6;
            }
        }
    std::printf("%u statistics recorded without an allocation, %u of them in chunks\n", recorded, chunked);
}

TEST(Heap, notReadyRecordsNothingAndTakesNothing) {
    FakeVulkan fake;
    CountingAllocator allocator;
    vkattn_host host = fake.host();
    host.allocator = &allocator.callbacks;
    Context context;
    ASSERT_EQ(context.create(host), VKATTN_OK);
    const SmallOperations small;
    for (const vkattn_operation &operation : small.all()) {
        vkattn_requirements needs{};
        ASSERT_EQ(context.query(operation, needs), VKATTN_OK);
        const Bound bound(operation, needs);
        FakeCommands commands(8);
        const vkattn_record record = recordInto(commands, bound, nullptr);
        const uint64_t before = heapAllocations(), calls = allocator.calls();
        EXPECT_EQ(vkattnRecordOperation(context.handle(), &operation, &record, nullptr), VKATTN_NOT_READY);
        EXPECT_EQ(heapAllocations() - before, 0u);
        EXPECT_EQ(allocator.calls(), calls);
        EXPECT_TRUE(commands.dispatches.empty());
        EXPECT_EQ(commands.next.pipeline, nullptr);
        EXPECT_EQ(fake.pipelinesCreated, 0u);
    }
}

// Each allocation fails in turn, the library's and those that a driver makes through the callbacks.
// An error says so, nothing is lost, and the failed step works when it is tried again.
TEST(Heap, runsOutSafely) {
    const SmallOperations small;
    for (const bool pushDescriptors : {true, false}) {
        uint64_t failures = 0;
        for (uint64_t n = 0;; ++n) {
            FakeVulkan fake;
            fake.pushDescriptors = pushDescriptors;
            CountingAllocator allocator;
            allocator.failAt = n;
            std::vector<unsigned char> mapped(1 << 20);
            FakeCommands commands;
            std::optional<FakePool> pool;
            CoreHost on;
            on.host = fake.host();
            on.host.allocator = &allocator.callbacks;
            on.operations = small.all();
            on.buffer = reinterpret_cast<VkBuffer>(uintptr_t{0x1000});
            on.bufferBytes = mapped.size(), on.mapped = mapped.data();
            on.begin = [&](uint32_t sets, uint32_t descriptors) {
                commands.reset();
                pool.emplace(sets, descriptors);
                return CoreHost::Target{commands.handle(), sets ? pool->handle() : VK_NULL_HANDLE};
            };
            on.phase = [&](const std::string &) { EXPECT_EQ(fake.modules, 0) << "shader modules live only while a pipeline compiles"; };
            const CoreSteps steps = runCoreSteps(on);
            expectOnlyOutOfHostMemory(steps, n);
            EXPECT_TRUE(fake.nothingLives()) << n;
            EXPECT_EQ(allocator.live(), 0u) << n;
            EXPECT_EQ(allocator.strangers(), 0u) << n;
            EXPECT_EQ(fake.error.load(), nullptr) << fake.error.load();
            failures += steps.failed.size();
            if (allocator.calls() <= n) {
                EXPECT_EQ(failures, n) << "an allocation failed and nobody said so";
                break;
            }
        }
        std::printf("faults: each of %llu host allocations failed\n", static_cast<unsigned long long>(failures));
        EXPECT_GE(failures, 40u);
    }
}
