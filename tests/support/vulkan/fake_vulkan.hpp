// A Vulkan that computes nothing: one instance, one device, command buffers that remember what was
// recorded into them. For what can be proven without a driver: which commands the library records,
// what it allocates and when, and that its threads do not race (drivers are not instrumented, this
// is). Handles are pointers to these objects, so any number of them may live at once. Strict: a
// call that breaks a rule of Vulkan's that is checked here leaves a message, see FakeVulkan::error
// and FakeCommands::error.
#pragma once

#include "vkattn/vkattn.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace vkattn::test {

struct FakeVulkan;

struct FakeSetLayout {
    FakeVulkan *device;
    uint32_t bindings;
    bool pushDescriptors;
};
struct FakePipelineLayout {
    FakeVulkan *device;
    FakeSetLayout set; // a copy: Vulkan lets the set layout be destroyed
    uint32_t pushConstantBytes;
};
struct FakeModule {
    FakeVulkan *device;
    std::vector<uint32_t> words;
};
struct FakePipeline {
    FakeVulkan *device;
    FakePipelineLayout *layout;
    std::vector<uint32_t> spirv, constants; // constants by id
    VkPipelineShaderStageCreateFlags stageFlags;
    uint32_t requiredSubgroupSize; // 0: none
};
struct FakeSet {
    FakeSetLayout layout;
    VkDescriptorBufferInfo buffers[16];
};
struct FakePool { // its sets are made before, so that taking them allocates nothing
    FakePool(uint32_t setCount, uint32_t descriptorCount) : sets(setCount), descriptorsLeft(descriptorCount) {}
    std::vector<FakeSet> sets;
    uint32_t taken = 0, descriptorsLeft;
    [[nodiscard]] VkDescriptorPool handle() { return reinterpret_cast<VkDescriptorPool>(this); }
};

struct FakeDispatch {
    const FakePipeline *pipeline;
    uint32_t descriptorCount;
    VkDescriptorBufferInfo descriptors[16];
    uint32_t pushBytes; // of the last vkCmdPushConstants
    unsigned char push[128];
    uint32_t groups[3];
    uint32_t barriers; // since the dispatch before
};
struct FakeCommands {
    // The number of dispatches that are remembered without an allocation.
    explicit FakeCommands(size_t room = 0) { dispatches.reserve(room); }
    void reset();
    [[nodiscard]] VkCommandBuffer handle() { return reinterpret_cast<VkCommandBuffer>(this); }
    std::vector<FakeDispatch> dispatches;
    FakeDispatch next{};
    uint32_t hostBarriers = 0;   // from compute to the host; all others are from compute to compute
    const char *error = nullptr; // the first
};

struct FakeVulkan {
    // The answers of vkGetPhysicalDeviceProperties and its like. Set them before the context is
    // created. By default they are more than any device has.
    FakeVulkan();
    VkPhysicalDeviceProperties properties{};
    VkPhysicalDeviceSubgroupProperties subgroups{};
    VkPhysicalDeviceSubgroupSizeControlProperties sizeControl{}; // 4 to 128 lanes may be required
    bool nanPreserve = true;
    bool fullSubgroups = true; // VkPhysicalDeviceSubgroupSizeControlFeatures
    bool pushDescriptors = true;
    bool oldInstance = false; // created for Vulkan 1.0, whatever the loader and the device offer
    // Creating more returns VK_ERROR_OUT_OF_DEVICE_MEMORY.
    uint32_t mostPipelines = UINT32_MAX;

    // Everything that vkattn_host needs; extensions as `pushDescriptors` and `fullSubgroups` say.
    [[nodiscard]] vkattn_host host();
    [[nodiscard]] VkDevice device() { return reinterpret_cast<VkDevice>(this); }
    static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL getInstanceProcAddr(VkInstance instance, const char *name);

    // Objects that live.
    std::atomic<int> setLayouts{0}, pipelineLayouts{0}, modules{0}, pipelines{0}, caches{0};
    std::atomic<uint32_t> pipelinesCreated{0};
    std::atomic<const char *> error{nullptr}; // the last
    [[nodiscard]] bool nothingLives() const {
        return setLayouts == 0 && pipelineLayouts == 0 && modules == 0 && pipelines == 0 && caches == 0;
    }

  private:
    VkPhysicalDeviceFeatures2 features_{};
    VkPhysicalDeviceSubgroupSizeControlFeatures sizeControl_{};
    const char *extensions_[4] = {};
};

} // namespace vkattn::test
