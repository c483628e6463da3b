// A vkGetInstanceProcAddr that passes everything on and writes down what a profiler would see:
// labels, names, barriers, dispatches; and how pipelines are created.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cstring>
#include <string>
#include <vector>

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance, const char *);

namespace vkattn::test {

struct Spy {
    // "label NAME", "label end", "zone NAME", "zone end", "barrier", "dispatch"
    std::vector<std::string> events;
    std::vector<std::string> names; // of objects
    struct Stage {
        VkPipelineShaderStageCreateFlags flags;
        uint32_t requiredSubgroupSize, invocations;
    };
    std::vector<Stage> stages; // of the pipelines that were created
    bool hideLabels = false;   // as if the instance had no VK_EXT_debug_utils
    bool hidePushDescriptors = false;
    int labelLookups = 0;
    PFN_vkGetDeviceProcAddr getDeviceProcAddr = nullptr;
    PFN_vkCmdBeginDebugUtilsLabelEXT beginLabel = nullptr;
    PFN_vkCmdEndDebugUtilsLabelEXT endLabel = nullptr;
    PFN_vkSetDebugUtilsObjectNameEXT setName = nullptr;
    PFN_vkCmdDispatch dispatch = nullptr;
    PFN_vkCmdPipelineBarrier barrier = nullptr;
    PFN_vkCreateComputePipelines createPipelines = nullptr;
};
inline Spy spy;

namespace spying {

inline VKAPI_ATTR void VKAPI_CALL beginLabel(VkCommandBuffer c, const VkDebugUtilsLabelEXT *label) {
    spy.events.push_back(std::string("label ") + label->pLabelName);
    spy.beginLabel(c, label);
}
inline VKAPI_ATTR void VKAPI_CALL endLabel(VkCommandBuffer c) {
    spy.events.emplace_back("label end");
    spy.endLabel(c);
}
inline VKAPI_ATTR VkResult VKAPI_CALL setName(VkDevice d, const VkDebugUtilsObjectNameInfoEXT *info) {
    spy.names.emplace_back(info->pObjectName);
    return spy.setName(d, info);
}
inline VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z) {
    spy.events.emplace_back("dispatch");
    spy.dispatch(c, x, y, z);
}
inline VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer c, VkPipelineStageFlags s, VkPipelineStageFlags d, VkDependencyFlags f,
                                          uint32_t mn, const VkMemoryBarrier *m, uint32_t bn, const VkBufferMemoryBarrier *b, uint32_t in,
                                          const VkImageMemoryBarrier *i) {
    spy.events.emplace_back("barrier");
    spy.barrier(c, s, d, f, mn, m, bn, b, in, i);
}
inline VKAPI_ATTR VkResult VKAPI_CALL createPipelines(VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *infos,
                                                      const VkAllocationCallbacks *a, VkPipeline *p) {
    for (uint32_t each = 0; each < n; ++each) {
        const VkPipelineShaderStageCreateInfo &stage = infos[each].stage;
        uint32_t size = 0, invocations = 0;
        for (const auto *next = static_cast<const VkBaseInStructure *>(stage.pNext); next; next = next->pNext)
            if (next->sType == VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO)
                size = reinterpret_cast<const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *>(next)->requiredSubgroupSize;
        std::memcpy(&invocations, stage.pSpecializationInfo->pData, 4);
        spy.stages.push_back({stage.flags, size, invocations});
    }
    return spy.createPipelines(d, c, n, infos, a, p);
}

#define VKATTN_SPY(function, into, name)                                                                                                   \
    if (next && std::strcmp(name, #function) == 0) {                                                                                       \
        spy.into = reinterpret_cast<PFN_##function>(next);                                                                                 \
        return reinterpret_cast<PFN_vkVoidFunction>(into);                                                                                 \
    }

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name) {
    if (spy.hidePushDescriptors && std::strcmp(name, "vkCmdPushDescriptorSetKHR") == 0) return nullptr;
    const PFN_vkVoidFunction next = spy.getDeviceProcAddr(device, name);
    VKATTN_SPY(vkCmdDispatch, dispatch, name)
    VKATTN_SPY(vkCmdPipelineBarrier, barrier, name)
    VKATTN_SPY(vkCreateComputePipelines, createPipelines, name)
    return next;
}

} // namespace spying

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL spyGetInstanceProcAddr(VkInstance instance, const char *name) {
    using namespace spying;
    const bool ofLabels = std::strstr(name, "DebugUtils") != nullptr;
    if (ofLabels) ++spy.labelLookups;
    if (ofLabels && spy.hideLabels) return nullptr;
    const PFN_vkVoidFunction next = vkGetInstanceProcAddr(instance, name);
    VKATTN_SPY(vkGetDeviceProcAddr, getDeviceProcAddr, name)
    VKATTN_SPY(vkCmdBeginDebugUtilsLabelEXT, beginLabel, name)
    VKATTN_SPY(vkCmdEndDebugUtilsLabelEXT, endLabel, name)
    VKATTN_SPY(vkSetDebugUtilsObjectNameEXT, setName, name)
    return next;
}
#undef VKATTN_SPY

} // namespace vkattn::test
