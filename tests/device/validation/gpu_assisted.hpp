// A vkGetInstanceProcAddr for runtimes with `validation`: the layer instruments shaders instead of
// watching synchronization, devices show whether robust buffer access was asked for, and
// descriptors can be made to end early.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cstring>
#include <vector>

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance, const char *);

namespace vkattn::test {

struct GpuAssisted {
    VkDeviceSize shortenBytes = 0; // by which the range of every descriptor ends early
    uint32_t devices = 0;          // that were made
    // One of them with a feature that keeps accesses within their ranges.
    bool robust = false;
    PFN_vkCreateInstance createInstance = nullptr;
    PFN_vkCreateDevice createDevice = nullptr;
    PFN_vkGetDeviceProcAddr getDeviceProcAddr = nullptr;
    PFN_vkUpdateDescriptorSets updateDescriptorSets = nullptr;
    PFN_vkCmdPushDescriptorSetKHR cmdPushDescriptorSet = nullptr;
};
inline GpuAssisted gpuAssisted;

namespace assisted {

inline VKAPI_ATTR VkResult VKAPI_CALL createInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                                     VkInstance *instance) {
    const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT,
                                                    VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT};
    VkValidationFeaturesEXT features{};
    features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    features.enabledValidationFeatureCount = 2;
    features.pEnabledValidationFeatures = enabled;
    // validation_test.cpp has them
    const VkValidationFeatureDisableEXT disabled[] = {VK_VALIDATION_FEATURE_DISABLE_CORE_CHECKS_EXT};
    features.disabledValidationFeatureCount = 1;
    features.pDisabledValidationFeatures = disabled;
    VkInstanceCreateInfo changed = *info;
    if (info->enabledLayerCount) changed.pNext = &features; // the runtime's chain has nothing else
    return gpuAssisted.createInstance(&changed, allocator, instance);
}

inline VKAPI_ATTR VkResult VKAPI_CALL createDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                   const VkAllocationCallbacks *allocator, VkDevice *device) {
    ++gpuAssisted.devices;
    gpuAssisted.robust |= info->pEnabledFeatures && info->pEnabledFeatures->robustBufferAccess;
    for (const auto *next = static_cast<const VkBaseInStructure *>(info->pNext); next; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)
            gpuAssisted.robust |= reinterpret_cast<const VkPhysicalDeviceFeatures2 *>(next)->features.robustBufferAccess != 0;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT)
            gpuAssisted.robust |= reinterpret_cast<const VkPhysicalDeviceRobustness2FeaturesEXT *>(next)->robustBufferAccess2 != 0;
    }
    return gpuAssisted.createDevice(physical, info, allocator, device);
}

// Calls use(count, writes) with ranges that end early.
template <class Use> void shorten(uint32_t count, const VkWriteDescriptorSet *writes, const Use &use) {
    std::vector<VkWriteDescriptorSet> changed(writes, writes + count);
    std::vector<VkDescriptorBufferInfo> buffers(count); // one each: vkattn writes no arrays
    for (uint32_t n = 0; n < count; ++n) {
        buffers[n] = *writes[n].pBufferInfo;
        if (buffers[n].range > gpuAssisted.shortenBytes) buffers[n].range -= gpuAssisted.shortenBytes;
        changed[n].pBufferInfo = &buffers[n];
    }
    use(count, changed.data());
}

inline VKAPI_ATTR void VKAPI_CALL updateDescriptorSets(VkDevice device, uint32_t count, const VkWriteDescriptorSet *writes, uint32_t,
                                                       const VkCopyDescriptorSet *) {
    shorten(count, writes,
            [&](uint32_t n, const VkWriteDescriptorSet *changed) { gpuAssisted.updateDescriptorSets(device, n, changed, 0, nullptr); });
}

inline VKAPI_ATTR void VKAPI_CALL cmdPushDescriptorSet(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipelineLayout layout,
                                                       uint32_t set, uint32_t count, const VkWriteDescriptorSet *writes) {
    shorten(count, writes, [&](uint32_t n, const VkWriteDescriptorSet *changed) {
        gpuAssisted.cmdPushDescriptorSet(commands, point, layout, set, n, changed);
    });
}

#define VKATTN_ASSIST(function, into)                                                                                                      \
    if (next && std::strcmp(name, #function) == 0) {                                                                                       \
        gpuAssisted.into = reinterpret_cast<PFN_##function>(next);                                                                         \
        return reinterpret_cast<PFN_vkVoidFunction>(into);                                                                                 \
    }

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name) {
    const PFN_vkVoidFunction next = gpuAssisted.getDeviceProcAddr(device, name);
    VKATTN_ASSIST(vkUpdateDescriptorSets, updateDescriptorSets)
    VKATTN_ASSIST(vkCmdPushDescriptorSetKHR, cmdPushDescriptorSet)
    return next;
}

} // namespace assisted

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL gpuAssistedGetInstanceProcAddr(VkInstance instance, const char *name) {
    using namespace assisted;
    const PFN_vkVoidFunction next = vkGetInstanceProcAddr(instance, name);
    VKATTN_ASSIST(vkCreateInstance, createInstance)
    VKATTN_ASSIST(vkCreateDevice, createDevice)
    VKATTN_ASSIST(vkGetDeviceProcAddr, getDeviceProcAddr)
    return next;
}
#undef VKATTN_ASSIST

} // namespace vkattn::test
