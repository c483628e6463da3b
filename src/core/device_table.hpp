// The Vulkan functions of one context, found through the host's vkGetInstanceProcAddr: no loader is linked and no vk* symbol is defined,
// so that two libraries, or a host that uses volk, never overwrite each other's pointers.
#pragma once

#include "vkattn/vkattn.h"

namespace vkattn {

struct DeviceTable {
#define VKATTN_DEVICE_FUNCTIONS(X)                                                                                                         \
    X(CreateDescriptorSetLayout)                                                                                                           \
    X(DestroyDescriptorSetLayout)                                                                                                          \
    X(CreatePipelineLayout)                                                                                                                \
    X(DestroyPipelineLayout)                                                                                                               \
    X(CreateShaderModule)                                                                                                                  \
    X(DestroyShaderModule)                                                                                                                 \
    X(CreatePipelineCache)                                                                                                                 \
    X(DestroyPipelineCache)                                                                                                                \
    X(GetPipelineCacheData)                                                                                                                \
    X(MergePipelineCaches)                                                                                                                 \
    X(CreateComputePipelines)                                                                                                              \
    X(DestroyPipeline)                                                                                                                     \
    X(AllocateDescriptorSets)                                                                                                              \
    X(UpdateDescriptorSets)                                                                                                                \
    X(CmdBindPipeline)                                                                                                                     \
    X(CmdBindDescriptorSets)                                                                                                               \
    X(CmdPushConstants)                                                                                                                    \
    X(CmdDispatch)                                                                                                                         \
    X(CmdPipelineBarrier)
#define VKATTN_DECLARE(name) PFN_vk##name name = nullptr;
    VKATTN_DEVICE_FUNCTIONS(VKATTN_DECLARE)
#undef VKATTN_DECLARE
    PFN_vkCmdPushDescriptorSetKHR CmdPushDescriptorSet = nullptr; // NULL where the host did not enable push descriptors

    [[nodiscard]] vkattn_result load(const vkattn_host &host, bool pushDescriptors, vkattn_diagnostic *why);
};

// Reads the caps of a physical device. `extensionEnabled(name)` says what the device has been, or will be, created with.
struct EnabledExtensions {
    const char *const *names;
    uint32_t count;
    [[nodiscard]] bool has(const char *name) const;
};
[[nodiscard]] vkattn_result readCaps(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance, VkPhysicalDevice physicalDevice,
                                     uint32_t apiVersion, const EnabledExtensions &extensions, vkattn_caps &out, vkattn_diagnostic *why);

} // namespace vkattn
