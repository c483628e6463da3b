// The VkPipelineCaches of one context, and the blob that carries what is in them to the next run.
//
// A context that was given no pipeline cache begins with an empty one of its own. An imported blob
// becomes another, put at the head of a list, with what the list had so far merged into it:
// pipelines compile with the head. Nothing is taken out of the list before destroy(), so that a
// thread may go on compiling with the cache it has while another imports, without a lock; the
// list's length is bounded (maxImports).
#pragma once

#include "core/device/device_table.hpp"

#include <atomic>

namespace vkattn {

// The blob, little-endian: this header, and then the data of vkGetPipelineCacheData.
namespace blob {
constexpr unsigned char magic[8] = {'v', 'k', 'a', 't', 't', 'n', 'P', 'C'};
constexpr uint32_t formatVersion = 1;
constexpr size_t magicAt = 0, formatVersionAt = 8, headerBytesAt = 12, libraryVersionAt = 16, vendorAt = 20, deviceAt = 24,
                 driverVersionAt = 28, uuidAt = 32, shaderHashAt = 48, payloadBytesAt = 56, payloadChecksumAt = 64, headerChecksumAt = 72,
                 headerBytes = 80; // a multiple of 16: the payload is as aligned as the blob

// Returns a 64-bit checksum that every change within 8 neighbouring bytes changes. The checksum
// protects against damage, not against malice.
[[nodiscard]] uint64_t checksum(const unsigned char *bytes, size_t count);
} // namespace blob

// Returns a hash of all embedded SPIR-V, and of the code that changes SPIR-V before a driver sees
// it.
[[nodiscard]] uint64_t shaderBankHash();

class PipelineCaches {
  public:
    static constexpr uint32_t maxImports = 7;

    [[nodiscard]] vkattn_result create(const DeviceTable &table, const vkattn_host &host, const VkPhysicalDeviceProperties &properties,
                                       vkattn_diagnostic *why);
    void destroy();

    // Returns the cache to compile with. Vulkan synchronises the cache internally: the library
    // creates no other kind.
    [[nodiscard]] VkPipelineCache current() const {
        const Node *head = head_.load(std::memory_order_acquire);
        return head ? head->cache : hostCache_;
    }

    [[nodiscard]] vkattn_result exportTo(size_t &bytes, void *data, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result importFrom(size_t bytes, const void *data, vkattn_diagnostic *why);

  private:
    struct Node {
        VkPipelineCache cache;
        uint64_t payloadChecksum;
        size_t payloadBytes; // 0: the cache began empty
        uint32_t imports;    // imports in the list from here on
        Node *next;
    };

    [[nodiscard]] vkattn_result createCache(size_t bytes, const void *data, VkPipelineCache &cache, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result mergeInto(VkPipelineCache cache, const Node *head, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result push(VkPipelineCache cache, size_t payloadBytes, uint64_t payloadChecksum, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result writeBlob(VkPipelineCache cache, size_t &bytes, unsigned char *data, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result checkBlob(size_t bytes, const unsigned char *data, vkattn_diagnostic *why);
    [[nodiscard]] bool knows(const Node *head, size_t payloadBytes, uint64_t payloadChecksum) const;
    [[nodiscard]] const char *driverHeaderFault(size_t bytes, const unsigned char *data) const;
    [[nodiscard]] uint64_t shaderHash();

    const DeviceTable *table_ = nullptr;
    VkDevice device_ = VK_NULL_HANDLE;
    VkPipelineCache hostCache_ = VK_NULL_HANDLE; // set: there is no list
    const VkAllocationCallbacks *allocator_ = nullptr;
    uint32_t vendor_ = 0, deviceId_ = 0, driverVersion_ = 0;
    uint8_t uuid_[VK_UUID_SIZE] = {};
    std::atomic<uint64_t> shaderHash_{0}; // 0: not computed yet
    std::atomic<Node *> head_{nullptr};
};

} // namespace vkattn
