// Every Vulkan call of a context fails in turn, with every error that it may return. The step that
// made the call says so, leaves nothing behind, and works when it is tried again.
#include "device/host.hpp"
#include "every_call.hpp"
#include "support/core_steps.hpp"
#include "support/vulkan/counting_allocator.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// All trials share one host, whose own calls do not pass the ledger.
class Fixture {
  public:
    explicit Fixture(const HostOptions &options) : host(options) {
        if (!host.ready) return;
        pool_ = makeDescriptorPool(host.device, 256, 4096);
        EXPECT_TRUE(pool_);
        on.host = host.host;
        on.operations = small_.all();
        on.buffer = host.buffer, on.bufferBytes = 1 << 20, on.mapped = host.mapped;
        on.begin = [this](uint32_t sets, uint32_t descriptors) { return begin(sets, descriptors); };
        on.phase = [](const std::string &step) { ledger.phase = step; };
    }
    ~Fixture() {
        if (pool_) vkDestroyDescriptorPool(host.device, pool_, nullptr);
    }
    Fixture(const Fixture &) = delete;
    Fixture &operator=(const Fixture &) = delete;

    // What other devices do with attention is tried without limits; these need more buffers.
    void limitTo(const vkattn_caps &caps) {
        on.host.capsLimit = &caps;
        on.operations = small_.others();
        std::erase_if(on.operations, [](const vkattn_operation &each) {
            return each.kind == VKATTN_ATTENTION_STATISTICS || each.kind == VKATTN_VISIBLE_BLOCKS || each.kind == VKATTN_LINEAR_ATTENTION ||
                   each.kind == VKATTN_LINEAR_ATTENTION_GRADIENT;
        });
    }

    Host host;
    CoreHost on;

  private:
    CoreHost::Target begin(uint32_t sets, uint32_t descriptors) {
        EXPECT_LE(sets, 256u);
        EXPECT_LE(descriptors, 4096u);
        EXPECT_EQ(vkResetDescriptorPool(host.device, pool_, 0), VK_SUCCESS);
        EXPECT_EQ(vkResetCommandPool(host.device, host.pool, 0), VK_SUCCESS);
        VkCommandBufferBeginInfo info{};
        info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        EXPECT_EQ(vkBeginCommandBuffer(host.commands, &info), VK_SUCCESS);
        return {host.commands, sets ? pool_ : VK_NULL_HANDLE};
    }
    SmallOperations small_;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

void check(const Trial &trial, const CoreSteps &steps) {
    for (const std::string &text : steps.again) ADD_FAILURE() << text << ": " << trial.text();
    if (trial.function.empty() || isTolerated(trial.function)) {
        for (const CoreStep &step : steps.failed) ADD_FAILURE() << step.name << ": " << step.message << ": " << trial.text();
        return;
    }
    ASSERT_EQ(steps.failed.size(), 1u) << trial.text();
    const CoreStep &step = steps.failed.front();
    const bool refused = step.name == "import" && trial.function == "vkCreatePipelineCache" && codeOf(trial.error) == VKATTN_ERROR_VULKAN;
    EXPECT_EQ(step.result, refused ? VKATTN_CACHE_REJECTED : codeOf(trial.error)) << step.message << ": " << trial.text();
    EXPECT_NE(step.message.find(trial.function), std::string::npos) << step.message << ": " << trial.text();
    EXPECT_EQ(step.name, trial.phase);
}

// `fourBuffers`: as on a device with the minimum limits, where operations take several steps.
void failEveryCallOf(const std::string &name, const HostOptions &options, bool fourBuffers = false) {
    Fixture fixture(options);
    ASSERT_TRUE(fixture.host.ready) << fixture.host.why;
    vkattn_caps weak{};
    weak.structSize = sizeof weak;
    ASSERT_EQ(vkattnMinimumCaps(&weak, nullptr), VKATTN_OK);
    if (fourBuffers) fixture.limitTo(weak);
    fault = {};
    fault.emptyShaders = true;
    failEveryCall(name, [&](const Trial &trial) { check(trial, runCoreSteps(fixture.on)); });
    fault = {};
}

} // namespace

TEST(EveryCoreCall, failsWithPushDescriptors) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    options.askVkattn = options.debugUtils = true;
    failEveryCallOf("core with push descriptors and labels", options);
}

TEST(EveryCoreCall, failsWithADescriptorPool) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    failEveryCallOf("core with descriptor pools", options);
}

TEST(EveryCoreCall, failsInTheFormsOfFourBuffers) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    failEveryCallOf("core with four storage buffers", options, true);
}

// Memory that the driver takes through the callbacks counts too, and is most of it.
TEST(EveryCoreCall, hostMemoryRunsOut) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    options.askVkattn = true;
    Fixture fixture(options);
    ASSERT_TRUE(fixture.host.ready) << fixture.host.why;
    fault = {};
    fault.emptyShaders = true;
    uint64_t failures = 0;
    for (uint64_t n = 0;; ++n) {
        ledger.reset();
        CountingAllocator allocator;
        allocator.failAt = n;
        CoreHost on = fixture.on;
        on.host.allocator = &allocator.callbacks;
        const CoreSteps steps = runCoreSteps(on);
        expectOnlyOutOfHostMemory(steps, n);
        EXPECT_EQ(allocator.live(), 0u) << n;
        EXPECT_EQ(allocator.strangers(), 0u) << n;
        EXPECT_EQ(ledger.leaks(), "") << n;
        failures += steps.failed.size();
        if (allocator.calls() <= n) break; // there is no such allocation
    }
    fault = {};
    EXPECT_GT(failures, 20u);
    std::printf("faults: %llu host allocations failed one at a time, the driver's among them\n", static_cast<unsigned long long>(failures));
}
