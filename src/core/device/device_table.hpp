// The Vulkan functions of one context, found through the host's vkGetInstanceProcAddr: no loader is
// linked and no vk* symbol is defined, so that two libraries, or a host that uses volk, never
// overwrite each other's pointers.
#pragma once

#include "core/device/requirements.hpp"

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
    // NULL where the host did not enable push descriptors.
    PFN_vkCmdPushDescriptorSetKHR CmdPushDescriptorSet = nullptr;
    // These three are NULL where the host did not enable VK_EXT_debug_utils, or did not declare it.
    PFN_vkCmdBeginDebugUtilsLabelEXT CmdBeginDebugUtilsLabel = nullptr;
    PFN_vkCmdEndDebugUtilsLabelEXT CmdEndDebugUtilsLabel = nullptr;
    PFN_vkSetDebugUtilsObjectNameEXT SetDebugUtilsObjectName = nullptr;

    [[nodiscard]] vkattn_result load(const vkattn_host &host, bool pushDescriptors, vkattn_diagnostic *why);
};

} // namespace vkattn
