// A host program of the tests' own: instance, device, command buffer, one buffer large enough for
// everything. As little as an engine may have (Vulkan 1.0, nothing enabled), or what vkattn asks
// for before the device exists.
#pragma once

#include "support/vulkan/faulty_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <vulkan/vulkan.h>

#include <string>
#include <vector>

namespace vkattn::test {

struct HostOptions {
    uint32_t apiVersion = VK_API_VERSION_1_0;
    bool askVkattn = false;  // enable the extensions and features that vkattn finds helpful
    bool debugUtils = false; // enable VK_EXT_debug_utils, and say so
    // Enables the layer with synchronization validation; `messages` has the layer's words.
    bool validation = false;
    bool aggregate = false; // the engine's chain has VkPhysicalDeviceVulkan13Features already
    bool duplicate = false; // and against the rules, behind it, a struct that it has taken in
    // Enable timeline semaphores (Vulkan 1.2), and a second queue where there is one.
    bool timeline = false;
    PFN_vkGetInstanceProcAddr getInstanceProcAddr = faultyGetInstanceProcAddr;
    VkDeviceSize bytes = 1 << 20; // of the buffer
};

// A pool of storage buffers; VK_NULL_HANDLE where there are no sets, or the pool cannot be made.
[[nodiscard]] VkDescriptorPool makeDescriptorPool(VkDevice device, uint32_t sets, uint32_t storageDescriptors);

class Host {
  public:
    explicit Host(const HostOptions &options = {});
    ~Host();
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    // Makes the writes of shaders visible to the host, ends, submits and waits.
    bool submitAndWait();

    bool ready = false;
    std::string why; // not ready
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physicalDevice = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    uint32_t family = 0, secondFamily = 0;
    // secondQueue is the same queue where the device has only one.
    VkQueue queue = VK_NULL_HANDLE, secondQueue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE; // recording
    VkBuffer buffer = VK_NULL_HANDLE;          // of `bytes`
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDeviceSize bytes = 0; // of the buffer
    unsigned char *mapped = nullptr;
    VkDescriptorPool descriptors = VK_NULL_HANDLE; // 16 sets, 256 storage buffers
    std::vector<const char *> extensions;
    VkPhysicalDeviceTimelineSemaphoreFeatures timelineFeatures{};
    VkPhysicalDeviceSubgroupSizeControlFeatures duplicate{};
    VkPhysicalDeviceVulkan13Features aggregate{};
    VkPhysicalDeviceFeatures2 features{};
    vkattn_feature_storage room{};
    std::vector<std::string> messages;
    vkattn_host host{};

  private:
    bool createInstance(const HostOptions &options);
    bool createDevice(const HostOptions &options);
    bool createBuffer(VkDeviceSize size);
    bool createCommands();
    bool failed(const char *what);
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

} // namespace vkattn::test
