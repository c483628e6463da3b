// Function tables of the runtime: one for an instance, one for a device. No global function pointer
// is used after loading.
#pragma once

#include <vulkan/vulkan_core.h>

#include <string>

namespace vkattn {

#define VKATTN_INSTANCE_FUNCTIONS(X)                                                                                                       \
    X(DestroyInstance)                                                                                                                     \
    X(EnumeratePhysicalDevices)                                                                                                            \
    X(GetPhysicalDeviceProperties)                                                                                                         \
    X(GetPhysicalDeviceFeatures)                                                                                                           \
    X(GetPhysicalDeviceMemoryProperties)                                                                                                   \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                                              \
    X(EnumerateDeviceExtensionProperties)                                                                                                  \
    X(CreateDevice)                                                                                                                        \
    X(GetDeviceProcAddr)

#define VKATTN_RUNTIME_DEVICE_FUNCTIONS(X)                                                                                                 \
    X(DestroyDevice)                                                                                                                       \
    X(GetDeviceQueue)                                                                                                                      \
    X(DeviceWaitIdle)                                                                                                                      \
    X(CreateCommandPool)                                                                                                                   \
    X(DestroyCommandPool)                                                                                                                  \
    X(ResetCommandPool)                                                                                                                    \
    X(AllocateCommandBuffers)                                                                                                              \
    X(BeginCommandBuffer)                                                                                                                  \
    X(EndCommandBuffer)                                                                                                                    \
    X(CreateFence)                                                                                                                         \
    X(DestroyFence)                                                                                                                        \
    X(ResetFences)                                                                                                                         \
    X(WaitForFences)                                                                                                                       \
    X(QueueSubmit)                                                                                                                         \
    X(CreateQueryPool)                                                                                                                     \
    X(DestroyQueryPool)                                                                                                                    \
    X(GetQueryPoolResults)                                                                                                                 \
    X(CmdResetQueryPool)                                                                                                                   \
    X(CmdWriteTimestamp)                                                                                                                   \
    X(CmdCopyBuffer)                                                                                                                       \
    X(CmdPipelineBarrier)                                                                                                                  \
    X(CreateBuffer)                                                                                                                        \
    X(DestroyBuffer)                                                                                                                       \
    X(GetBufferMemoryRequirements)                                                                                                         \
    X(AllocateMemory)                                                                                                                      \
    X(FreeMemory)                                                                                                                          \
    X(BindBufferMemory)                                                                                                                    \
    X(MapMemory)                                                                                                                           \
    X(CreateDescriptorPool)                                                                                                                \
    X(DestroyDescriptorPool)                                                                                                               \
    X(ResetDescriptorPool)                                                                                                                 \
    X(AllocateDescriptorSets)                                                                                                              \
    X(UpdateDescriptorSets)                                                                                                                \
    X(CreateDescriptorSetLayout)                                                                                                           \
    X(DestroyDescriptorSetLayout)                                                                                                          \
    X(CreatePipelineLayout)                                                                                                                \
    X(DestroyPipelineLayout)                                                                                                               \
    X(CreateShaderModule)                                                                                                                  \
    X(DestroyShaderModule)                                                                                                                 \
    X(CreateComputePipelines)                                                                                                              \
    X(DestroyPipeline)                                                                                                                     \
    X(CmdBindPipeline)                                                                                                                     \
    X(CmdBindDescriptorSets)                                                                                                               \
    X(CmdPushConstants)                                                                                                                    \
    X(CmdDispatch)

#define VKATTN_DECLARE(name) PFN_vk##name name = nullptr;
struct InstanceTable {
    PFN_vkGetInstanceProcAddr getInstanceProcAddr = nullptr;
    VKATTN_INSTANCE_FUNCTIONS(VKATTN_DECLARE)
    // NULL on Vulkan 1.0 without the extension.
    PFN_vkGetPhysicalDeviceProperties2 GetPhysicalDeviceProperties2 = nullptr;
    PFN_vkGetPhysicalDeviceFeatures2 GetPhysicalDeviceFeatures2 = nullptr;
    [[nodiscard]] bool load(PFN_vkGetInstanceProcAddr get, VkInstance instance);
};
struct RuntimeDeviceTable {
    VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_DECLARE)
    // NULL where push descriptors are not in use.
    PFN_vkCmdPushDescriptorSetKHR CmdPushDescriptorSet = nullptr;
    [[nodiscard]] bool load(PFN_vkGetDeviceProcAddr get, VkDevice device);
};
#undef VKATTN_DECLARE

// Returns a text such as "vkQueueSubmit failed: VK_ERROR_DEVICE_LOST".
[[nodiscard]] std::string failureText(const char *call, VkResult result);

} // namespace vkattn
