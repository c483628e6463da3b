#include "support/vulkan/fake_vulkan.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace vkattn::test {
namespace {

template <class Object, class Handle> Object *object(Handle handle) {
    return reinterpret_cast<Object *>(handle);
}
FakeVulkan *of(VkDevice device) {
    return object<FakeVulkan>(device);
}

// Like a driver, the fake takes host memory from the callbacks where there are some.
template <class Object> Object *make(const VkAllocationCallbacks *allocator) {
    void *memory = allocator
                       ? allocator->pfnAllocation(allocator->pUserData, sizeof(Object), alignof(Object), VK_SYSTEM_ALLOCATION_SCOPE_OBJECT)
                       : ::operator new(sizeof(Object));
    return memory ? new (memory) Object{} : nullptr;
}
template <class Object> void unmake(Object *it, const VkAllocationCallbacks *allocator) {
    it->~Object();
    if (allocator)
        allocator->pfnFree(allocator->pUserData, it);
    else
        ::operator delete(it);
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
    *out = object<FakeVulkan>(physical)->properties;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
    const FakeVulkan &fake = *object<FakeVulkan>(physical);
    out->properties = fake.properties;
    for (auto *each = static_cast<VkBaseOutStructure *>(out->pNext); each; each = each->pNext) {
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
            auto *subgroups = reinterpret_cast<VkPhysicalDeviceSubgroupProperties *>(each);
            void *next = subgroups->pNext;
            *subgroups = fake.subgroups;
            subgroups->pNext = next;
        } else if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
            auto *control = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties *>(each);
            void *next = control->pNext;
            *control = fake.sizeControl;
            control->pNext = next;
        } else if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES) {
            reinterpret_cast<VkPhysicalDeviceFloatControlsProperties *>(each)->shaderSignedZeroInfNanPreserveFloat32 = fake.nanPreserve;
        }
    }
}

VKAPI_ATTR VkResult VKAPI_CALL EnumerateInstanceVersion(uint32_t *out) {
    *out = VK_API_VERSION_1_3;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL EnumerateDeviceExtensionProperties(VkPhysicalDevice physical, const char *, uint32_t *count,
                                                                  VkExtensionProperties *out) {
    const FakeVulkan &fake = *object<FakeVulkan>(physical);
    const char *const names[] = {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME};
    const uint32_t all = fake.pushDescriptors ? 2 : 1;
    if (out)
        for (uint32_t n = 0; n < std::min(*count, all); ++n) std::strcpy(out[n].extensionName, names[n]);
    *count = all;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures(VkPhysicalDevice, VkPhysicalDeviceFeatures *out) {
    *out = {};
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out) {
    const FakeVulkan &fake = *object<FakeVulkan>(physical);
    out->features = {};
    for (auto *each = static_cast<VkBaseOutStructure *>(out->pNext); each; each = each->pNext)
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
            auto *control = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlFeatures *>(each);
            control->subgroupSizeControl = control->computeFullSubgroups = fake.fullSubgroups;
        }
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDescriptorSetLayout(VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkDescriptorSetLayout *out) {
    auto *layout = make<FakeSetLayout>(allocator);
    if (!layout) return VK_ERROR_OUT_OF_HOST_MEMORY;
    *layout = {of(device), info->bindingCount, (info->flags & VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR) != 0};
    if (layout->bindings > of(device)->properties.limits.maxPerStageDescriptorStorageBuffers)
        of(device)->error = "a set layout has more storage buffers than a stage may have";
    if (layout->pushDescriptors && !of(device)->pushDescriptors) of(device)->error = "push descriptors are not enabled";
    ++of(device)->setLayouts;
    *out = reinterpret_cast<VkDescriptorSetLayout>(layout);
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL DestroyDescriptorSetLayout(VkDevice device, VkDescriptorSetLayout layout,
                                                      const VkAllocationCallbacks *allocator) {
    if (!layout) return;
    --of(device)->setLayouts;
    unmake(object<FakeSetLayout>(layout), allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL CreatePipelineLayout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkPipelineLayout *out) {
    auto *layout = make<FakePipelineLayout>(allocator);
    if (!layout) return VK_ERROR_OUT_OF_HOST_MEMORY;
    *layout = {of(device), *object<FakeSetLayout>(info->pSetLayouts[0]), info->pPushConstantRanges[0].size};
    if (layout->pushConstantBytes > of(device)->properties.limits.maxPushConstantsSize)
        of(device)->error = "a pipeline layout has more push constants than the device";
    ++of(device)->pipelineLayouts;
    *out = reinterpret_cast<VkPipelineLayout>(layout);
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL DestroyPipelineLayout(VkDevice device, VkPipelineLayout layout, const VkAllocationCallbacks *allocator) {
    if (!layout) return;
    --of(device)->pipelineLayouts;
    unmake(object<FakePipelineLayout>(layout), allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                  const VkAllocationCallbacks *allocator, VkShaderModule *out) {
    auto *module = make<FakeModule>(allocator);
    if (!module) return VK_ERROR_OUT_OF_HOST_MEMORY;
    module->device = of(device);
    module->words.assign(info->pCode, info->pCode + info->codeSize / 4);
    if (module->words.size() < 5 || module->words[0] != 0x07230203u) of(device)->error = "a shader module is no SPIR-V";
    ++of(device)->modules;
    *out = reinterpret_cast<VkShaderModule>(module);
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL DestroyShaderModule(VkDevice device, VkShaderModule module, const VkAllocationCallbacks *allocator) {
    if (!module) return;
    --of(device)->modules;
    unmake(object<FakeModule>(module), allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateComputePipelines(VkDevice device, VkPipelineCache, uint32_t count,
                                                      const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *allocator,
                                                      VkPipeline *out) {
    FakeVulkan &fake = *of(device);
    for (uint32_t n = 0; n < count; ++n) out[n] = VK_NULL_HANDLE;
    for (uint32_t n = 0; n < count; ++n) {
        if (fake.pipelinesCreated >= fake.mostPipelines) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
        ++fake.pipelinesCreated;
        auto *pipeline = make<FakePipeline>(allocator);
        if (!pipeline) return VK_ERROR_OUT_OF_HOST_MEMORY;
        const VkPipelineShaderStageCreateInfo &stage = infos[n].stage;
        pipeline->device = &fake;
        pipeline->layout = object<FakePipelineLayout>(infos[n].layout);
        pipeline->spirv = object<FakeModule>(stage.module)->words;
        pipeline->stageFlags = stage.flags;
        for (const auto *each = static_cast<const VkBaseInStructure *>(stage.pNext); each; each = each->pNext)
            if (each->sType == VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO) {
                const uint32_t size =
                    reinterpret_cast<const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *>(each)->requiredSubgroupSize;
                pipeline->requiredSubgroupSize = size;
                if (!fake.fullSubgroups || size < fake.sizeControl.minSubgroupSize || size > fake.sizeControl.maxSubgroupSize ||
                    (size & (size - 1)) != 0)
                    fake.error = "a subgroup size is required that must not be";
            }
        if (const VkSpecializationInfo *constants = stage.pSpecializationInfo)
            for (uint32_t c = 0; c < constants->mapEntryCount; ++c) {
                const VkSpecializationMapEntry &entry = constants->pMapEntries[c];
                if (entry.size != 4 || entry.offset + entry.size > constants->dataSize) {
                    fake.error = "a specialization constant lies outside the data";
                    continue;
                }
                pipeline->constants.resize(std::max<size_t>(pipeline->constants.size(), entry.constantID + size_t{1}));
                std::memcpy(&pipeline->constants[entry.constantID], static_cast<const char *>(constants->pData) + entry.offset, 4);
            }
        ++fake.pipelines;
        out[n] = reinterpret_cast<VkPipeline>(pipeline);
    }
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL DestroyPipeline(VkDevice device, VkPipeline pipeline, const VkAllocationCallbacks *allocator) {
    if (!pipeline) return;
    --of(device)->pipelines;
    unmake(object<FakePipeline>(pipeline), allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateDescriptorSets(VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *sets) {
    auto &pool = *object<FakePool>(info->descriptorPool);
    for (uint32_t n = 0; n < info->descriptorSetCount; ++n) {
        const FakeSetLayout &layout = *object<FakeSetLayout>(info->pSetLayouts[n]);
        if (layout.pushDescriptors) of(device)->error = "a set of a push descriptor layout is allocated";
        if (pool.taken == pool.sets.size() || layout.bindings > pool.descriptorsLeft) return VK_ERROR_OUT_OF_POOL_MEMORY;
        pool.descriptorsLeft -= layout.bindings;
        FakeSet &set = pool.sets[pool.taken++];
        set = {layout, {}};
        sets[n] = reinterpret_cast<VkDescriptorSet>(&set);
    }
    return VK_SUCCESS;
}

const char *write(const VkWriteDescriptorSet &from, const FakeSetLayout &layout, VkDescriptorBufferInfo *to) {
    if (from.descriptorType != VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) return "a descriptor is no storage buffer";
    if (from.dstBinding + from.descriptorCount > layout.bindings) return "a descriptor is written that the layout does not have";
    std::copy_n(from.pBufferInfo, from.descriptorCount, to + from.dstBinding);
    return nullptr;
}

VKAPI_ATTR void VKAPI_CALL UpdateDescriptorSets(VkDevice device, uint32_t count, const VkWriteDescriptorSet *writes, uint32_t,
                                                const VkCopyDescriptorSet *) {
    for (uint32_t n = 0; n < count; ++n) {
        auto &set = *object<FakeSet>(writes[n].dstSet);
        if (const char *error = write(writes[n], set.layout, set.buffers)) of(device)->error = error;
    }
}

FakeCommands &commandsOf(VkCommandBuffer commandBuffer) {
    return *object<FakeCommands>(commandBuffer);
}
void fail(FakeCommands &commands, const char *error) {
    if (!commands.error) commands.error = error;
}

VKAPI_ATTR void VKAPI_CALL CmdBindPipeline(VkCommandBuffer commandBuffer, VkPipelineBindPoint point, VkPipeline pipeline) {
    FakeCommands &commands = commandsOf(commandBuffer);
    if (point != VK_PIPELINE_BIND_POINT_COMPUTE) fail(commands, "a pipeline is bound to another point than compute");
    if (!pipeline) return fail(commands, "VK_NULL_HANDLE is bound as pipeline");
    commands.next.pipeline = object<FakePipeline>(pipeline);
    if (commands.next.pipeline->spirv.empty())
        // Reads what another thread wrote.
        fail(commands, "a pipeline is bound that is not complete");
}

VKAPI_ATTR void VKAPI_CALL CmdBindDescriptorSets(VkCommandBuffer commandBuffer, VkPipelineBindPoint, VkPipelineLayout layout,
                                                 uint32_t first, uint32_t count, const VkDescriptorSet *sets, uint32_t, const uint32_t *) {
    FakeCommands &commands = commandsOf(commandBuffer);
    if (first != 0 || count != 1) return fail(commands, "other sets than set 0 are bound");
    const auto &set = *object<FakeSet>(sets[0]);
    if (set.layout.bindings != object<FakePipelineLayout>(layout)->set.bindings) fail(commands, "a set of another layout is bound");
    commands.next.descriptorCount = set.layout.bindings;
    std::copy_n(set.buffers, 16, commands.next.descriptors);
}

VKAPI_ATTR void VKAPI_CALL CmdPushDescriptorSetKHR(VkCommandBuffer commandBuffer, VkPipelineBindPoint, VkPipelineLayout layout,
                                                   uint32_t number, uint32_t count, const VkWriteDescriptorSet *writes) {
    FakeCommands &commands = commandsOf(commandBuffer);
    const FakeSetLayout &set = object<FakePipelineLayout>(layout)->set;
    if (number != 0 || !set.pushDescriptors) return fail(commands, "pushed descriptors of a set that is not one of push descriptors");
    std::fill_n(commands.next.descriptors, 16, VkDescriptorBufferInfo{});
    for (uint32_t n = 0; n < count; ++n)
        if (const char *error = write(writes[n], set, commands.next.descriptors)) fail(commands, error);
    commands.next.descriptorCount = set.bindings;
}

VKAPI_ATTR void VKAPI_CALL CmdPushConstants(VkCommandBuffer commandBuffer, VkPipelineLayout layout, VkShaderStageFlags stages,
                                            uint32_t offset, uint32_t size, const void *values) {
    FakeCommands &commands = commandsOf(commandBuffer);
    if (stages != VK_SHADER_STAGE_COMPUTE_BIT || offset % 4 || size % 4 || size == 0 ||
        offset + size > object<FakePipelineLayout>(layout)->pushConstantBytes)
        return fail(commands, "push constants lie outside the layout's range");
    std::memcpy(commands.next.push + offset, values, size);
    commands.next.pushBytes = offset + size;
}

VKAPI_ATTR void VKAPI_CALL CmdPipelineBarrier(VkCommandBuffer commandBuffer, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                              VkDependencyFlags, uint32_t memoryCount, const VkMemoryBarrier *memory, uint32_t buffers,
                                              const VkBufferMemoryBarrier *, uint32_t images, const VkImageMemoryBarrier *) {
    FakeCommands &commands = commandsOf(commandBuffer);
    if (from == VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT && to == VK_PIPELINE_STAGE_HOST_BIT && memoryCount == 1 && !buffers && !images &&
        memory->srcAccessMask == VK_ACCESS_SHADER_WRITE_BIT && memory->dstAccessMask == VK_ACCESS_HOST_READ_BIT) {
        ++commands.hostBarriers; // after the self-test
        return;
    }
    ++commands.next.barriers;
    constexpr VkAccessFlags readWrite = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    if (from != VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT || to != VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT || memoryCount != 1 || buffers ||
        images || memory->srcAccessMask != VK_ACCESS_SHADER_WRITE_BIT || memory->dstAccessMask != readWrite)
        fail(commands, "a barrier is not the one memory barrier from compute to compute that the header promises");
}

VKAPI_ATTR void VKAPI_CALL CmdDispatch(VkCommandBuffer commandBuffer, uint32_t x, uint32_t y, uint32_t z) {
    FakeCommands &commands = commandsOf(commandBuffer);
    FakeDispatch &next = commands.next;
    if (!next.pipeline) return fail(commands, "a dispatch without a pipeline");
    const FakePipelineLayout &layout = *next.pipeline->layout;
    const VkPhysicalDeviceLimits &limits = next.pipeline->device->properties.limits;
    if (next.descriptorCount != layout.set.bindings) fail(commands, "a dispatch's descriptors are of another layout than its pipeline");
    for (uint32_t n = 0; n < next.descriptorCount; ++n) {
        const VkDescriptorBufferInfo &buffer = next.descriptors[n];
        if (!buffer.buffer || buffer.range == 0) fail(commands, "a dispatch has a binding without a descriptor");
        if (buffer.offset % limits.minStorageBufferOffsetAlignment || buffer.range > limits.maxStorageBufferRange)
            fail(commands, "a descriptor begins unaligned or is too long");
    }
    next.groups[0] = x, next.groups[1] = y, next.groups[2] = z;
    commands.dispatches.push_back(next);
    next.barriers = 0;
}

VKAPI_ATTR VkResult VKAPI_CALL CreatePipelineCache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                                   const VkAllocationCallbacks *allocator, VkPipelineCache *out) {
    auto *cache = make<std::vector<unsigned char>>(allocator);
    if (!cache) return VK_ERROR_OUT_OF_HOST_MEMORY;
    const auto *bytes = static_cast<const unsigned char *>(info->pInitialData);
    cache->assign(bytes, bytes + info->initialDataSize);
    ++of(device)->caches;
    *out = reinterpret_cast<VkPipelineCache>(cache);
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL DestroyPipelineCache(VkDevice device, VkPipelineCache cache, const VkAllocationCallbacks *allocator) {
    if (!cache) return;
    --of(device)->caches;
    unmake(object<std::vector<unsigned char>>(cache), allocator);
}
VKAPI_ATTR VkResult VKAPI_CALL GetPipelineCacheData(VkDevice device, VkPipelineCache, size_t *size, void *data) {
    const uint32_t content[] = {16 + VK_UUID_SIZE, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, of(device)->properties.vendorID,
                                of(device)->properties.deviceID};
    constexpr size_t all = sizeof content + VK_UUID_SIZE;
    if (!data) return *size = all, VK_SUCCESS;
    if (*size < all) return *size = 0, VK_INCOMPLETE;
    std::memcpy(data, content, sizeof content);
    std::memcpy(static_cast<char *>(data) + sizeof content, of(device)->properties.pipelineCacheUUID, VK_UUID_SIZE);
    *size = all;
    return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL MergePipelineCaches(VkDevice, VkPipelineCache, uint32_t, const VkPipelineCache *) {
    return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char *name);

struct Entry {
    const char *name;
    PFN_vkVoidFunction function;
};
#define VKATTN_FAKE(name)                                                                                                                  \
    { "vk" #name, reinterpret_cast<PFN_vkVoidFunction>(name) }
const Entry instanceFunctions[] = {VKATTN_FAKE(GetPhysicalDeviceProperties),        VKATTN_FAKE(GetPhysicalDeviceProperties2),
                                   VKATTN_FAKE(GetPhysicalDeviceFeatures),          VKATTN_FAKE(GetPhysicalDeviceFeatures2),
                                   VKATTN_FAKE(EnumerateDeviceExtensionProperties), VKATTN_FAKE(GetDeviceProcAddr)};
const Entry globalFunctions[] = {VKATTN_FAKE(EnumerateInstanceVersion)};
const Entry deviceFunctions[] = {VKATTN_FAKE(CreateDescriptorSetLayout),
                                 VKATTN_FAKE(DestroyDescriptorSetLayout),
                                 VKATTN_FAKE(CreatePipelineLayout),
                                 VKATTN_FAKE(DestroyPipelineLayout),
                                 VKATTN_FAKE(CreateShaderModule),
                                 VKATTN_FAKE(DestroyShaderModule),
                                 VKATTN_FAKE(CreateComputePipelines),
                                 VKATTN_FAKE(DestroyPipeline),
                                 VKATTN_FAKE(AllocateDescriptorSets),
                                 VKATTN_FAKE(UpdateDescriptorSets),
                                 VKATTN_FAKE(CmdBindPipeline),
                                 VKATTN_FAKE(CmdBindDescriptorSets),
                                 VKATTN_FAKE(CmdPushConstants),
                                 VKATTN_FAKE(CmdPipelineBarrier),
                                 VKATTN_FAKE(CmdDispatch),
                                 VKATTN_FAKE(CreatePipelineCache),
                                 VKATTN_FAKE(DestroyPipelineCache),
                                 VKATTN_FAKE(GetPipelineCacheData),
                                 VKATTN_FAKE(MergePipelineCaches)};
const Entry pushDescriptorFunctions[] = {VKATTN_FAKE(CmdPushDescriptorSetKHR)};
#undef VKATTN_FAKE

template <size_t count> PFN_vkVoidFunction find(const Entry (&entries)[count], const char *name) {
    for (const Entry &entry : entries)
        if (std::strcmp(entry.name, name) == 0) return entry.function;
    return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char *name) {
    if (const PFN_vkVoidFunction function = find(deviceFunctions, name)) return function;
    return of(device)->pushDescriptors ? find(pushDescriptorFunctions, name) : nullptr;
}

} // namespace

void FakeCommands::reset() {
    dispatches.clear();
    next = {};
    hostBarriers = 0;
    error = nullptr;
}

FakeVulkan::FakeVulkan() {
    properties.apiVersion = VK_API_VERSION_1_3;
    properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    std::strcpy(properties.deviceName, "fake");
    VkPhysicalDeviceLimits &limits = properties.limits;
    limits.maxStorageBufferRange = UINT32_MAX;
    limits.minStorageBufferOffsetAlignment = 4;
    limits.maxPerStageDescriptorStorageBuffers = 64;
    limits.maxPushConstantsSize = 256;
    limits.maxComputeWorkGroupInvocations = 1024;
    for (uint32_t &size : limits.maxComputeWorkGroupSize) size = 1024;
    for (uint32_t &count : limits.maxComputeWorkGroupCount) count = 0x7fffffff;
    limits.maxComputeSharedMemorySize = 65536;
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroups.subgroupSize = 128;
    subgroups.supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
    subgroups.supportedOperations = 0xff;
    sizeControl.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    sizeControl.minSubgroupSize = 4;
    sizeControl.maxSubgroupSize = 128;
    sizeControl.maxComputeWorkgroupSubgroups = 64;
    sizeControl.requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
}

vkattn_host FakeVulkan::host() {
    uint32_t count = 0;
    if (pushDescriptors) extensions_[count++] = VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME;
    if (fullSubgroups) extensions_[count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    sizeControl_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    sizeControl_.subgroupSizeControl = sizeControl_.computeFullSubgroups = fullSubgroups;
    features_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features_.pNext = &sizeControl_;
    vkattn_host host{};
    host.structSize = sizeof host;
    host.apiVersion = properties.apiVersion;
    host.instance = reinterpret_cast<VkInstance>(this);
    host.physicalDevice = reinterpret_cast<VkPhysicalDevice>(this);
    host.device = device();
    host.getInstanceProcAddr = getInstanceProcAddr;
    host.enabledExtensions = extensions_;
    host.enabledExtensionCount = count;
    host.enabledFeatures = &features_;
    return host;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL FakeVulkan::getInstanceProcAddr(VkInstance instance, const char *name) {
    if (!instance) return find(globalFunctions, name);
    if (object<FakeVulkan>(instance)->oldInstance && std::strstr(name, "vkGetPhysicalDevice") && std::strchr(name, '2')) return nullptr;
    if (const PFN_vkVoidFunction function = find(instanceFunctions, name)) return function;
    return GetDeviceProcAddr(reinterpret_cast<VkDevice>(instance), name);
}

} // namespace vkattn::test
