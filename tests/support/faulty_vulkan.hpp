// A vkGetInstanceProcAddr that hands out wrappers for chosen functions: Vulkan that fails, or that forgets its barriers.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cstring>
#include <string>

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance, const char *);

namespace vkattn::test {

struct Fault {
    std::string function; // which Vulkan function answers `result`; empty: none
    VkResult result = VK_SUCCESS;
    int calls = 1; // how often; negative: always
    int skip = 0;  // calls that pass first
    bool dropBarriers = false;
    bool corrupt = false; // once, when next a fence was waited for: words of the memory that was allocated last, if it is mapped
};
inline Fault fault; // what happens next

namespace faulty {

inline PFN_vkGetDeviceProcAddr nextDeviceProcAddr = nullptr;

struct LastMemory {
    VkDeviceMemory handle = VK_NULL_HANDLE;
    VkDeviceSize bytes = 0;
    unsigned char *mapped = nullptr;
};
inline LastMemory lastMemory;

inline bool strikes(const char *function) {
    if (fault.function != function || fault.calls == 0) return false;
    if (fault.skip-- > 0) return false;
    if (fault.calls > 0) --fault.calls;
    return true;
}

#define VKATTN_FAULTY(name, parameters, arguments)                                                                                         \
    inline PFN_vk##name next##name = nullptr;                                                                                              \
    inline VKAPI_ATTR VkResult VKAPI_CALL name parameters {                                                                                \
        return strikes("vk" #name) ? fault.result : next##name arguments;                                                                  \
    }
VKATTN_FAULTY(QueueSubmit, (VkQueue q, uint32_t n, const VkSubmitInfo *s, VkFence f), (q, n, s, f))
VKATTN_FAULTY(CreateBuffer, (VkDevice d, const VkBufferCreateInfo *i, const VkAllocationCallbacks *a, VkBuffer *b), (d, i, a, b))
VKATTN_FAULTY(CreateComputePipelines,
              (VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i, const VkAllocationCallbacks *a,
               VkPipeline *p),
              (d, c, n, i, a, p))
VKATTN_FAULTY(CreateShaderModule, (VkDevice d, const VkShaderModuleCreateInfo *i, const VkAllocationCallbacks *a, VkShaderModule *m),
              (d, i, a, m))
VKATTN_FAULTY(CreatePipelineLayout, (VkDevice d, const VkPipelineLayoutCreateInfo *i, const VkAllocationCallbacks *a, VkPipelineLayout *l),
              (d, i, a, l))
VKATTN_FAULTY(CreateDescriptorSetLayout,
              (VkDevice d, const VkDescriptorSetLayoutCreateInfo *i, const VkAllocationCallbacks *a, VkDescriptorSetLayout *l),
              (d, i, a, l))
VKATTN_FAULTY(AllocateDescriptorSets, (VkDevice d, const VkDescriptorSetAllocateInfo *i, VkDescriptorSet *s), (d, i, s))
VKATTN_FAULTY(CreateCommandPool, (VkDevice d, const VkCommandPoolCreateInfo *i, const VkAllocationCallbacks *a, VkCommandPool *p),
              (d, i, a, p))
VKATTN_FAULTY(BeginCommandBuffer, (VkCommandBuffer c, const VkCommandBufferBeginInfo *i), (c, i))
VKATTN_FAULTY(EndCommandBuffer, (VkCommandBuffer c), (c))
VKATTN_FAULTY(CreateDevice, (VkPhysicalDevice p, const VkDeviceCreateInfo *i, const VkAllocationCallbacks *a, VkDevice *d), (p, i, a, d))
#undef VKATTN_FAULTY

inline PFN_vkAllocateMemory nextAllocateMemory = nullptr;
inline VKAPI_ATTR VkResult VKAPI_CALL AllocateMemory(VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *a,
                                                     VkDeviceMemory *m) {
    if (strikes("vkAllocateMemory")) return fault.result;
    const VkResult result = nextAllocateMemory(d, i, a, m);
    lastMemory = {result == VK_SUCCESS ? *m : VK_NULL_HANDLE, i->allocationSize, nullptr};
    return result;
}
inline PFN_vkMapMemory nextMapMemory = nullptr;
inline VKAPI_ATTR VkResult VKAPI_CALL MapMemory(VkDevice d, VkDeviceMemory m, VkDeviceSize o, VkDeviceSize s, VkMemoryMapFlags f,
                                                void **p) {
    if (strikes("vkMapMemory")) return fault.result;
    const VkResult result = nextMapMemory(d, m, o, s, f, p);
    if (result == VK_SUCCESS && m == lastMemory.handle && o == 0) lastMemory.mapped = static_cast<unsigned char *>(*p);
    return result;
}
inline PFN_vkWaitForFences nextWaitForFences = nullptr;
inline VKAPI_ATTR VkResult VKAPI_CALL WaitForFences(VkDevice d, uint32_t n, const VkFence *f, VkBool32 a, uint64_t t) {
    if (strikes("vkWaitForFences")) return fault.result;
    const VkResult result = nextWaitForFences(d, n, f, a, t);
    if (fault.corrupt && lastMemory.mapped) {
        fault.corrupt = false;
        const float wrong = 0.75f;
        for (VkDeviceSize at = 0; at + 4 <= lastMemory.bytes; at += 61 * 4) std::memcpy(lastMemory.mapped + at, &wrong, 4);
    }
    return result;
}

inline PFN_vkCmdPipelineBarrier nextCmdPipelineBarrier = nullptr;
inline VKAPI_ATTR void VKAPI_CALL CmdPipelineBarrier(VkCommandBuffer c, VkPipelineStageFlags s, VkPipelineStageFlags d, VkDependencyFlags f,
                                                     uint32_t mn, const VkMemoryBarrier *m, uint32_t bn, const VkBufferMemoryBarrier *b,
                                                     uint32_t in, const VkImageMemoryBarrier *i) {
    if (!fault.dropBarriers) nextCmdPipelineBarrier(c, s, d, f, mn, m, bn, b, in, i);
}

inline PFN_vkVoidFunction wrap(const char *name, PFN_vkVoidFunction next) {
#define VKATTN_WRAP(function)                                                                                                              \
    if (next && std::strcmp(name, "vk" #function) == 0) {                                                                                  \
        next##function = reinterpret_cast<PFN_vk##function>(next);                                                                         \
        return reinterpret_cast<PFN_vkVoidFunction>(function);                                                                             \
    }
    VKATTN_WRAP(QueueSubmit)
    VKATTN_WRAP(WaitForFences)
    VKATTN_WRAP(AllocateMemory)
    VKATTN_WRAP(MapMemory)
    VKATTN_WRAP(CreateBuffer)
    VKATTN_WRAP(CreateComputePipelines)
    VKATTN_WRAP(CreateShaderModule)
    VKATTN_WRAP(CreatePipelineLayout)
    VKATTN_WRAP(CreateDescriptorSetLayout)
    VKATTN_WRAP(AllocateDescriptorSets)
    VKATTN_WRAP(CreateCommandPool)
    VKATTN_WRAP(BeginCommandBuffer)
    VKATTN_WRAP(EndCommandBuffer)
    VKATTN_WRAP(CreateDevice)
    VKATTN_WRAP(CmdPipelineBarrier)
#undef VKATTN_WRAP
    return next;
}

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name) {
    return wrap(name, nextDeviceProcAddr(device, name));
}

} // namespace faulty

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL faultyGetInstanceProcAddr(VkInstance instance, const char *name) {
    const PFN_vkVoidFunction next = vkGetInstanceProcAddr(instance, name);
    if (next && std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
        faulty::nextDeviceProcAddr = reinterpret_cast<PFN_vkGetDeviceProcAddr>(next);
        return reinterpret_cast<PFN_vkVoidFunction>(faulty::getDeviceProcAddr);
    }
    return faulty::wrap(name, next);
}

} // namespace vkattn::test
