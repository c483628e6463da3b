#include "core/vulkan/cache.hpp"

#include "core/device/host_memory.hpp"
#include "core/device/vulkan_failure.hpp"
#include "core/shaders/shader_bank.hpp"
#include "core/shaders/specialize.hpp"

#include <cstring>
#include <new>

namespace vkattn {
namespace {

constexpr vkattn_result rejected = VKATTN_CACHE_REJECTED;
constexpr const char *goOn = "go on without it, and export a new one";

uint64_t read64(const unsigned char *at, size_t bytes = 8) {
    uint64_t value = 0;
    for (size_t n = bytes; n-- > 0;) value = value << 8 | at[n];
    return value;
}
uint32_t read32(const unsigned char *at) {
    return static_cast<uint32_t>(read64(at, 4));
}
void write64(unsigned char *at, uint64_t value, size_t bytes = 8) {
    for (size_t n = 0; n < bytes; ++n, value >>= 8) at[n] = static_cast<unsigned char>(value);
}
void write32(unsigned char *at, uint32_t value) {
    write64(at, value, 4);
}

// A bijection of the state for every word, and of the word for every state: two blobs that differ
// in one word only never get the same state again.
constexpr uint64_t mix(uint64_t state, uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15ull;
    return state ^ state >> 29;
}
constexpr uint64_t finish(uint64_t state, uint64_t count) {
    state = mix(state, count);
    state *= 0xbf58476d1ce4e5b9ull;
    return state ^ state >> 32;
}

uint64_t hashSpirv(uint64_t state, const Spirv &spirv) {
    for (size_t n = 0; n < spirv.bytes / 4; ++n) state = mix(state, spirv.words[n]);
    return mix(state, spirv.bytes);
}

// VkPipelineCacheHeaderVersionOne: length, version, vendor, device, UUID.
constexpr size_t driverHeaderBytes = 16 + VK_UUID_SIZE;

} // namespace

uint64_t blob::checksum(const unsigned char *bytes, size_t count) {
    uint64_t state = 0x517cc1b727220a95ull;
    size_t at = 0;
    for (; count - at >= 8; at += 8) state = mix(state, read64(bytes + at));
    if (at < count) state = mix(state, read64(bytes + at, count - at));
    return finish(state, count);
}

uint64_t shaderBankHash() {
    uint64_t state = foldingVersion;
    for (const ShaderModule &shader : shaderBank) state = hashSpirv(hashSpirv(state, shader.plain), shader.nanPreserving);
    return finish(state, moduleCount);
}

uint64_t PipelineCaches::shaderHash() {
    uint64_t hash = shaderHash_.load(std::memory_order_relaxed);
    // Threads that meet here store the same value.
    if (hash == 0) shaderHash_.store(hash = shaderBankHash(), std::memory_order_relaxed);
    return hash;
}

vkattn_result PipelineCaches::create(const DeviceTable &table, const vkattn_host &host, const VkPhysicalDeviceProperties &properties,
                                     vkattn_diagnostic *why) {
    table_ = &table;
    device_ = host.device;
    allocator_ = host.allocator;
    hostCache_ = host.pipelineCache;
    if (hostCache_) return VKATTN_OK;
    vendor_ = properties.vendorID;
    deviceId_ = properties.deviceID;
    driverVersion_ = properties.driverVersion;
    std::memcpy(uuid_, properties.pipelineCacheUUID, sizeof uuid_);
    VkPipelineCache cache = VK_NULL_HANDLE;
    if (const auto r = createCache(0, nullptr, cache, why)) return r;
    return push(cache, 0, 0, why);
}

void PipelineCaches::destroy() {
    for (Node *node = head_.exchange(nullptr); node;) {
        Node *next = node->next;
        table_->DestroyPipelineCache(device_, node->cache, allocator_);
        hostFree(allocator_, node);
        node = next;
    }
}

vkattn_result PipelineCaches::createCache(size_t bytes, const void *data, VkPipelineCache &cache, vkattn_diagnostic *why) {
    VkPipelineCacheCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    info.initialDataSize = bytes;
    info.pInitialData = data;
    const VkResult r = table_->CreatePipelineCache(device_, &info, allocator_, &cache);
    return r ? vulkanFailure(why, r, "vkCreatePipelineCache") : VKATTN_OK;
}

bool PipelineCaches::knows(const Node *head, size_t payloadBytes, uint64_t payloadChecksum) const {
    for (const Node *node = head; node; node = node->next)
        if (node->payloadBytes == payloadBytes && node->payloadChecksum == payloadChecksum) return true;
    return false;
}

// The cache is not in use anywhere else, because the destination of a merge must not be. The
// sources may be in use.
vkattn_result PipelineCaches::mergeInto(VkPipelineCache cache, const Node *head, vkattn_diagnostic *why) {
    VkPipelineCache sources[maxImports + 1];
    uint32_t count = 0;
    for (const Node *node = head; node; node = node->next) sources[count++] = node->cache;
    const VkResult r = table_->MergePipelineCaches(device_, cache, count, sources);
    return r ? vulkanFailure(why, r, "vkMergePipelineCaches") : VKATTN_OK;
}

// Takes ownership of the cache.
vkattn_result PipelineCaches::push(VkPipelineCache cache, size_t payloadBytes, uint64_t payloadChecksum, vkattn_diagnostic *why) {
    void *memory = hostAllocate(allocator_, sizeof(Node), alignof(Node));
    if (!memory) {
        table_->DestroyPipelineCache(device_, cache, allocator_);
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the entry of a pipeline cache");
    }
    Node *head = head_.load(std::memory_order_acquire);
    Node *node = new (memory) Node{cache, payloadChecksum, payloadBytes, 0, head};
    // A failed exchange brings the new head: another thread may have imported the same blob, or the
    // last one that there is room for.
    do {
        const bool twin = knows(head, payloadBytes, payloadChecksum);
        if (twin || (head && head->imports == maxImports)) {
            table_->DestroyPipelineCache(device_, cache, allocator_);
            hostFree(allocator_, node);
            return twin ? VKATTN_OK
                        : fail(why, rejected,
                               "this context has taken %u different caches, as many as it takes: import once, after creating it",
                               maxImports);
        }
        node->imports = head ? head->imports + 1 : 0;
        node->next = head;
    } while (!head_.compare_exchange_weak(head, node, std::memory_order_acq_rel, std::memory_order_acquire));
    return VKATTN_OK;
}

// Returns NULL where the header says that the data is from this driver, for this device.
const char *PipelineCaches::driverHeaderFault(size_t bytes, const unsigned char *data) const {
    if (bytes < driverHeaderBytes) return "is shorter than its header of 32 bytes";
    if (read32(data) != driverHeaderBytes) return "has a header whose length is not 32";
    if (read32(data + 4) != VK_PIPELINE_CACHE_HEADER_VERSION_ONE) return "has a header of another version than 1";
    if (read32(data + 8) != vendor_) return "names another vendor";
    if (read32(data + 12) != deviceId_) return "names another device";
    if (std::memcmp(data + 16, uuid_, sizeof uuid_) != 0) return "has another pipelineCacheUUID";
    return nullptr;
}

vkattn_result PipelineCaches::exportTo(size_t &bytes, void *data, vkattn_diagnostic *why) {
    if (hostCache_)
        return fail(why, invalid, "this context compiles into host.pipelineCache, which is yours to store: vkGetPipelineCacheData has it");
    auto *out = static_cast<unsigned char *>(data);
    const Node *head = head_.load(std::memory_order_acquire);
    if (!head->next) return writeBlob(head->cache, bytes, out, why);

    VkPipelineCache all = VK_NULL_HANDLE;
    if (const auto r = createCache(0, nullptr, all, why)) return r;
    vkattn_result result = mergeInto(all, head, why);
    if (!result) result = writeBlob(all, bytes, out, why);
    table_->DestroyPipelineCache(device_, all, allocator_);
    return result;
}

vkattn_result PipelineCaches::writeBlob(VkPipelineCache cache, size_t &bytes, unsigned char *data, vkattn_diagnostic *why) {
    size_t payload = 0;
    VkResult r = table_->GetPipelineCacheData(device_, cache, &payload, nullptr);
    if (r) return vulkanFailure(why, r, "vkGetPipelineCacheData");
    const size_t room = bytes;
    bytes = blob::headerBytes + payload;
    if (!data) return VKATTN_OK;
    if (room < bytes) return fail(why, invalid, "room for %zu bytes, and the cache takes %zu: ask again for the size", room, bytes);
    unsigned char *const into = data + blob::headerBytes;
    payload = room - blob::headerBytes; // other threads may have compiled more pipelines since
    r = table_->GetPipelineCacheData(device_, cache, &payload, into);
    if (r == VK_INCOMPLETE) {
        payload = 0;
        r = table_->GetPipelineCacheData(device_, cache, &payload, nullptr);
        if (r) return vulkanFailure(why, r, "vkGetPipelineCacheData");
        bytes = blob::headerBytes + payload;
        return fail(why, invalid, "room for %zu bytes, and the cache has just grown to %zu: ask again for the size", room, bytes);
    }
    if (r) return vulkanFailure(why, r, "vkGetPipelineCacheData");
    // A driver that gives data which it would not take back: the blob is an empty cache.
    if (driverHeaderFault(payload, into)) payload = 0;
    bytes = blob::headerBytes + payload;

    std::memcpy(data + blob::magicAt, blob::magic, sizeof blob::magic);
    write32(data + blob::formatVersionAt, blob::formatVersion);
    write32(data + blob::headerBytesAt, blob::headerBytes);
    write32(data + blob::libraryVersionAt, vkattnVersion());
    write32(data + blob::vendorAt, vendor_);
    write32(data + blob::deviceAt, deviceId_);
    write32(data + blob::driverVersionAt, driverVersion_);
    std::memcpy(data + blob::uuidAt, uuid_, sizeof uuid_);
    write64(data + blob::shaderHashAt, shaderHash());
    write64(data + blob::payloadBytesAt, payload);
    write64(data + blob::payloadChecksumAt, blob::checksum(into, payload));
    write64(data + blob::headerChecksumAt, blob::checksum(data, blob::headerChecksumAt));
    return VKATTN_OK;
}

vkattn_result PipelineCaches::checkBlob(size_t bytes, const unsigned char *data, vkattn_diagnostic *why) {
    if (bytes < blob::headerBytes)
        return fail(why, rejected, "the cache has %zu bytes, and its header alone takes %zu: empty or cut off: %s", bytes,
                    blob::headerBytes, goOn);
    if (std::memcmp(data + blob::magicAt, blob::magic, sizeof blob::magic) != 0)
        return fail(why, rejected, "this is no cache of vkattnExportCache: its magic is not 'vkattnPC': %s", goOn);
    if (const uint32_t format = read32(data + blob::formatVersionAt); format != blob::formatVersion)
        return fail(why, rejected, "the cache has format version %u, expected %u: %s", format, blob::formatVersion, goOn);
    if (const uint32_t header = read32(data + blob::headerBytesAt); header != blob::headerBytes)
        return fail(why, rejected, "the cache's header length is %u, expected %zu: %s", header, blob::headerBytes, goOn);
    if (read64(data + blob::headerChecksumAt) != blob::checksum(data, blob::headerChecksumAt))
        return fail(why, rejected, "the cache's header is damaged: its header checksum is wrong: %s", goOn);
    const uint64_t payload = read64(data + blob::payloadBytesAt);
    if (payload != bytes - blob::headerBytes)
        return fail(why, rejected, "the cache's header says payload size %llu, and %zu bytes follow it: cut off or joined: %s",
                    static_cast<unsigned long long>(payload), bytes - blob::headerBytes, goOn);
    if (read64(data + blob::payloadChecksumAt) != blob::checksum(data + blob::headerBytes, bytes - blob::headerBytes))
        return fail(why, rejected, "the cache is damaged: its payload checksum is wrong: %s", goOn);

    // The blob is whole. The next checks say whether it belongs to this library and device.
    if (const uint32_t version = read32(data + blob::libraryVersionAt); version != vkattnVersion())
        return fail(why, rejected, "the cache was made by library version %u.%u.%u, this is version %u.%u.%u: %s", version >> 22,
                    version >> 12 & 0x3ff, version & 0xfff, vkattnVersion() >> 22, vkattnVersion() >> 12 & 0x3ff, vkattnVersion() & 0xfff,
                    goOn);
    if (const uint64_t hash = read64(data + blob::shaderHashAt); hash != shaderHash())
        return fail(why, rejected, "the cache has the shader hash %016llx, this library's shaders have %016llx: %s",
                    static_cast<unsigned long long>(hash), static_cast<unsigned long long>(shaderHash()), goOn);
    if (const uint32_t vendor = read32(data + blob::vendorAt); vendor != vendor_)
        return fail(why, rejected, "the cache is for the vendor id 0x%x, this device has 0x%x: %s", vendor, vendor_, goOn);
    if (const uint32_t device = read32(data + blob::deviceAt); device != deviceId_)
        return fail(why, rejected, "the cache is for the device id 0x%x, this device has 0x%x: %s", device, deviceId_, goOn);
    if (const uint32_t driver = read32(data + blob::driverVersionAt); driver != driverVersion_)
        return fail(why, rejected, "the cache is for the driver version 0x%x, this driver has 0x%x: %s", driver, driverVersion_, goOn);
    if (std::memcmp(data + blob::uuidAt, uuid_, sizeof uuid_) != 0)
        return fail(why, rejected, "the cache is for another driver build: its pipelineCacheUUID differs from the device's: %s", goOn);
    if (payload == 0) return VKATTN_OK;
    if (const char *fault = driverHeaderFault(bytes - blob::headerBytes, data + blob::headerBytes))
        return fail(why, rejected, "the driver's data in the cache %s: %s", fault, goOn);
    return VKATTN_OK;
}

vkattn_result PipelineCaches::importFrom(size_t bytes, const void *data, vkattn_diagnostic *why) {
    if (hostCache_)
        return fail(why, invalid,
                    "this context compiles into host.pipelineCache, which is yours to fill: pass the data to vkCreatePipelineCache");
    const auto *in = static_cast<const unsigned char *>(data);
    if (const auto r = checkBlob(bytes, in, why)) return r;
    const unsigned char *payload = in + blob::headerBytes;
    const size_t payloadBytes = bytes - blob::headerBytes;
    const uint64_t payloadChecksum = read64(in + blob::payloadChecksumAt);
    if (payloadBytes == 0 || knows(head_.load(std::memory_order_acquire), payloadBytes, payloadChecksum)) return VKATTN_OK;

    // Drivers read words from the data.
    void *aligned = nullptr;
    if (reinterpret_cast<uintptr_t>(payload) % 16 != 0) {
        aligned = hostAllocate(allocator_, payloadBytes, 16);
        if (!aligned) return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu bytes of the cache", payloadBytes);
        std::memcpy(aligned, payload, payloadBytes);
    }
    VkPipelineCache cache = VK_NULL_HANDLE;
    const vkattn_result r = createCache(payloadBytes, aligned ? aligned : payload, cache, why);
    if (aligned) hostFree(allocator_, aligned);
    // The driver refuses the data; the diagnostic has its answer.
    if (r == VKATTN_ERROR_VULKAN) return rejected;
    if (r) return r;
    if (const auto merged = mergeInto(cache, head_.load(std::memory_order_acquire), why)) {
        table_->DestroyPipelineCache(device_, cache, allocator_);
        return merged;
    }
    return push(cache, payloadBytes, payloadChecksum, why);
}

} // namespace vkattn
