#include "support/vulkan/cache_device.hpp"

#include "core/vulkan/cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace vkattn::test {

CacheDevice cacheDevice;

namespace {

struct Cache {
    std::mutex mutex;
    std::set<uint64_t> keys;
};
struct Module {
    uint64_t hash;
};

constexpr size_t headerBytes = 32;

template <class Handle, class T> Handle handleOf(T *object) {
    return reinterpret_cast<Handle>(object);
}
template <class T, class Handle> T *objectOf(Handle handle) {
    return reinterpret_cast<T *>(handle);
}

bool fails() {
    return ++cacheDevice.calls == cacheDevice.failAt;
}

template <class T, class Handle> VkResult create(Handle *out, T *object) {
    if (fails()) {
        delete object;
        return cacheDevice.failWith;
    }
    ++cacheDevice.liveObjects;
    *out = handleOf<Handle>(object);
    return VK_SUCCESS;
}
template <class T, class Handle> void destroy(Handle handle) {
    if (!handle) return;
    --cacheDevice.liveObjects;
    delete objectOf<T>(handle);
}

uint64_t hashOf(const void *data, size_t bytes) {
    return blob::checksum(static_cast<const unsigned char *>(data), bytes);
}

void writeHeader(unsigned char *to) {
    const uint32_t words[4] = {headerBytes, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, cacheDevice.vendor, cacheDevice.device};
    std::memcpy(to, words, 16);
    std::memcpy(to + 16, cacheDevice.uuid, VK_UUID_SIZE);
}

VKAPI_ATTR VkResult VKAPI_CALL createPipelineCache(VkDevice, const VkPipelineCacheCreateInfo *info, const VkAllocationCallbacks *,
                                                   VkPipelineCache *out) {
    auto *cache = new Cache;
    if (info->initialDataSize != 0) {
        ++cacheDevice.initialDataSeen;
        const auto *data = static_cast<const unsigned char *>(info->pInitialData);
        // Touches every byte.
        const std::vector<unsigned char> copy(data, data + info->initialDataSize);
        unsigned char expected[headerBytes];
        writeHeader(expected);
        if (copy.size() < headerBytes || std::memcmp(copy.data() + 4, expected + 4, headerBytes - 4) != 0 ||
            reinterpret_cast<uintptr_t>(data) % 16 != 0)
            ++cacheDevice.badInitialData;
        for (size_t at = headerBytes; at + 8 <= copy.size(); at += 8) {
            uint64_t key = 0;
            std::memcpy(&key, copy.data() + at, 8);
            cache->keys.insert(key);
        }
    }
    const VkResult r = create(out, cache);
    if (r == VK_SUCCESS) ++cacheDevice.liveCaches;
    return r;
}
VKAPI_ATTR void VKAPI_CALL destroyPipelineCache(VkDevice, VkPipelineCache cache, const VkAllocationCallbacks *) {
    if (cache) --cacheDevice.liveCaches;
    destroy<Cache>(cache);
}
VKAPI_ATTR VkResult VKAPI_CALL getPipelineCacheData(VkDevice, VkPipelineCache handle, size_t *bytes, void *data) {
    if (fails()) return cacheDevice.failWith;
    auto *cache = objectOf<Cache>(handle);
    const std::lock_guard lock(cache->mutex);
    std::vector<unsigned char> all(headerBytes + 8 * cache->keys.size());
    writeHeader(all.data());
    size_t at = headerBytes;
    for (const uint64_t key : cache->keys) {
        std::memcpy(all.data() + at, &key, 8);
        at += 8;
    }
    if (cacheDevice.headerless) all.assign(20, 0xab);
    if (!data) {
        *bytes = all.size();
        if (cacheDevice.grows != 0) {
            --cacheDevice.grows;
            *bytes -= 8;
        }
        return VK_SUCCESS;
    }
    const size_t room = *bytes;
    *bytes = std::min(room, all.size());
    std::memcpy(data, all.data(), *bytes);
    return room < all.size() ? VK_INCOMPLETE : VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL mergePipelineCaches(VkDevice, VkPipelineCache to, uint32_t count, const VkPipelineCache *from) {
    if (fails()) return cacheDevice.failWith;
    auto *destination = objectOf<Cache>(to);
    for (uint32_t n = 0; n < count; ++n) {
        auto *source = objectOf<Cache>(from[n]);
        const std::lock_guard lock(source->mutex);
        // The function takes no lock on the destination: synchronising access is the caller's task,
        // and a thread sanitizer sees where the caller fails to.
        destination->keys.insert(source->keys.begin(), source->keys.end());
    }
    return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL createShaderModule(VkDevice, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *,
                                                  VkShaderModule *out) {
    return create(out, new Module{hashOf(info->pCode, info->codeSize)});
}
VKAPI_ATTR void VKAPI_CALL destroyShaderModule(VkDevice, VkShaderModule module, const VkAllocationCallbacks *) {
    destroy<Module>(module);
}
VKAPI_ATTR VkResult VKAPI_CALL createComputePipelines(VkDevice, VkPipelineCache handle, uint32_t, const VkComputePipelineCreateInfo *info,
                                                      const VkAllocationCallbacks *, VkPipeline *out) {
    const VkSpecializationInfo &constants = *info->stage.pSpecializationInfo;
    const uint64_t key = objectOf<Module>(info->stage.module)->hash ^ hashOf(constants.pData, constants.dataSize);
    if (handle) {
        auto *cache = objectOf<Cache>(handle);
        const std::lock_guard lock(cache->mutex);
        ++(cache->keys.insert(key).second ? cacheDevice.misses : cacheDevice.hits);
    }
    return create(out, new Module{key});
}
VKAPI_ATTR void VKAPI_CALL destroyPipeline(VkDevice, VkPipeline pipeline, const VkAllocationCallbacks *) {
    destroy<Module>(pipeline);
}
VKAPI_ATTR VkResult VKAPI_CALL createSetLayout(VkDevice, const VkDescriptorSetLayoutCreateInfo *, const VkAllocationCallbacks *,
                                               VkDescriptorSetLayout *out) {
    return create(out, new Module{});
}
VKAPI_ATTR void VKAPI_CALL destroySetLayout(VkDevice, VkDescriptorSetLayout layout, const VkAllocationCallbacks *) {
    destroy<Module>(layout);
}
VKAPI_ATTR VkResult VKAPI_CALL createPipelineLayout(VkDevice, const VkPipelineLayoutCreateInfo *, const VkAllocationCallbacks *,
                                                    VkPipelineLayout *out) {
    return create(out, new Module{});
}
VKAPI_ATTR void VKAPI_CALL destroyPipelineLayout(VkDevice, VkPipelineLayout layout, const VkAllocationCallbacks *) {
    destroy<Module>(layout);
}
VKAPI_ATTR void VKAPI_CALL notCalled() {
    std::abort(); // these tests record nothing
}

VKAPI_ATTR void VKAPI_CALL getProperties(VkPhysicalDevice, VkPhysicalDeviceProperties *out) {
    *out = {};
    out->apiVersion = VK_API_VERSION_1_0;
    out->vendorID = cacheDevice.vendor;
    out->deviceID = cacheDevice.device;
    out->driverVersion = cacheDevice.driverVersion;
    out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    std::memcpy(out->pipelineCacheUUID, cacheDevice.uuid, VK_UUID_SIZE);
    VkPhysicalDeviceLimits &limits = out->limits;
    limits.maxStorageBufferRange = 1u << 30;
    limits.minStorageBufferOffsetAlignment = 16;
    limits.maxPerStageDescriptorStorageBuffers = 64;
    limits.maxDescriptorSetStorageBuffers = 64;
    limits.maxPerStageResources = 128;
    limits.maxPushConstantsSize = 128;
    limits.maxComputeWorkGroupInvocations = 1024;
    for (uint32_t &size : limits.maxComputeWorkGroupSize) size = 1024;
    for (uint32_t &count : limits.maxComputeWorkGroupCount) count = 65535;
    limits.maxComputeSharedMemorySize = 32768;
}

template <class Function> PFN_vkVoidFunction erased(Function *function) {
    return reinterpret_cast<PFN_vkVoidFunction>(function);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL deviceFunction(VkDevice, const char *name) {
    struct Entry {
        const char *name;
        PFN_vkVoidFunction function;
    };
    static const Entry entries[] = {
        {"vkCreatePipelineCache", erased(createPipelineCache)},       {"vkDestroyPipelineCache", erased(destroyPipelineCache)},
        {"vkGetPipelineCacheData", erased(getPipelineCacheData)},     {"vkMergePipelineCaches", erased(mergePipelineCaches)},
        {"vkCreateShaderModule", erased(createShaderModule)},         {"vkDestroyShaderModule", erased(destroyShaderModule)},
        {"vkCreateComputePipelines", erased(createComputePipelines)}, {"vkDestroyPipeline", erased(destroyPipeline)},
        {"vkCreateDescriptorSetLayout", erased(createSetLayout)},     {"vkDestroyDescriptorSetLayout", erased(destroySetLayout)},
        {"vkCreatePipelineLayout", erased(createPipelineLayout)},     {"vkDestroyPipelineLayout", erased(destroyPipelineLayout)},
    };
    for (const Entry &entry : entries)
        if (std::strcmp(name, entry.name) == 0) return entry.function;
    return erased(notCalled);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instanceFunction(VkInstance, const char *name) {
    if (std::strcmp(name, "vkGetPhysicalDeviceProperties") == 0) return erased(getProperties);
    if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return erased(deviceFunction);
    return nullptr;
}

VKAPI_ATTR void *VKAPI_CALL allocate(void *, size_t bytes, size_t, VkSystemAllocationScope) {
    if (++cacheDevice.allocations == cacheDevice.failAllocationAt) return nullptr;
    ++cacheDevice.liveAllocations;
    return std::malloc(bytes);
}
VKAPI_ATTR void *VKAPI_CALL reallocate(void *, void *memory, size_t bytes, size_t, VkSystemAllocationScope) {
    return std::realloc(memory, bytes);
}
VKAPI_ATTR void VKAPI_CALL release(void *, void *memory) {
    if (memory) --cacheDevice.liveAllocations;
    std::free(memory);
}
const VkAllocationCallbacks counting = {nullptr, allocate, reallocate, release, nullptr, nullptr};

void write64(unsigned char *at, uint64_t value) {
    for (int n = 0; n < 8; ++n, value >>= 8) at[n] = static_cast<unsigned char>(value);
}

} // namespace

void CacheDevice::reset() {
    this->~CacheDevice();
    new (this) CacheDevice;
}

vkattn_host cacheDeviceHost(bool countAllocations) {
    static int instance, physicalDevice, device;
    vkattn_host host{};
    host.structSize = sizeof host;
    host.instance = handleOf<VkInstance>(&instance);
    host.physicalDevice = handleOf<VkPhysicalDevice>(&physicalDevice);
    host.device = handleOf<VkDevice>(&device);
    host.getInstanceProcAddr = instanceFunction;
    host.allocator = countAllocations ? &counting : nullptr;
    return host;
}

void fixChecksums(std::vector<unsigned char> &bytes) {
    if (bytes.size() < blob::headerBytes) return;
    write64(bytes.data() + blob::payloadChecksumAt, blob::checksum(bytes.data() + blob::headerBytes, bytes.size() - blob::headerBytes));
    write64(bytes.data() + blob::headerChecksumAt, blob::checksum(bytes.data(), blob::headerChecksumAt));
}

} // namespace vkattn::test
