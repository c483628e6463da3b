// Memory of the runtime: one buffer per role, which grows as needed. Buffers are mapped on devices
// that share the host's memory, and fed through a staging buffer on others.
#include "runtime/device.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

constexpr uint64_t stagingBytes = 32ull << 20;

} // namespace

int Device::memoryType(uint32_t allowed, bool hostVisible) const {
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    // The wishes, best first. Cached memory makes the host's reads fast.
    const VkMemoryPropertyFlags visibleWishes[] = {host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT | (unified_ ? local : 0),
                                                   host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, host};
    const VkMemoryPropertyFlags deviceWishes[] = {local, 0};
    const std::span<const VkMemoryPropertyFlags> wishes =
        hostVisible ? std::span<const VkMemoryPropertyFlags>(visibleWishes) : deviceWishes;
    for (const VkMemoryPropertyFlags wish : wishes)
        for (uint32_t n = 0; n < memory_.memoryTypeCount; ++n)
            if ((allowed >> n & 1u) && (memory_.memoryTypes[n].propertyFlags & wish) == wish) return static_cast<int>(n);
    return -1;
}

Device::Failure Device::reserve(Buffer &buffer, uint64_t bytes, bool hostVisible) {
    // vkattn_binding asks for whole words.
    const uint64_t size = std::max<uint64_t>((bytes + 3) & ~3ull, 4);
    if (buffer.buffer && buffer.size >= size) return {};
    release(buffer);
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = size;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    if (const VkResult r = table_.CreateBuffer(device_, &info, nullptr, &buffer.buffer)) {
        buffer.buffer = VK_NULL_HANDLE;
        return failed("vkCreateBuffer", r);
    }
    VkMemoryRequirements requirements;
    table_.GetBufferMemoryRequirements(device_, buffer.buffer, &requirements);
    const int type = memoryType(requirements.memoryTypeBits, hostVisible);
    if (type < 0) {
        release(buffer);
        return {VK_SUCCESS, VKATTN_ERROR_UNSUPPORTED, "the device has no memory type for storage buffers that the host can reach"};
    }
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.allocationSize = requirements.size;
    allocate.memoryTypeIndex = static_cast<uint32_t>(type);
    VkResult r = table_.AllocateMemory(device_, &allocate, nullptr, &buffer.memory);
    if (r) {
        buffer.memory = VK_NULL_HANDLE;
        release(buffer);
        Failure failure = failed("vkAllocateMemory", r);
        failure.why += " (" + std::to_string(requirements.size >> 20) + " MiB)";
        return failure;
    }
    if ((r = table_.BindBufferMemory(device_, buffer.buffer, buffer.memory, 0))) {
        release(buffer);
        return failed("vkBindBufferMemory", r);
    }
    if (hostVisible) {
        void *mapped = nullptr;
        if ((r = table_.MapMemory(device_, buffer.memory, 0, VK_WHOLE_SIZE, 0, &mapped))) {
            release(buffer);
            return failed("vkMapMemory", r);
        }
        buffer.mapped = static_cast<unsigned char *>(mapped);
    }
    buffer.size = size;
    return {};
}

void Device::release(Buffer &buffer) {
    if (buffer.buffer) table_.DestroyBuffer(device_, buffer.buffer, nullptr);
    if (buffer.memory) table_.FreeMemory(device_, buffer.memory, nullptr);
    buffer = {};
}

void Device::releaseAll() {
    for (Buffer &buffer : buffers_) release(buffer);
    release(staging_);
}

Device::Failure Device::upload(Buffer &to, const void *data, uint64_t bytes, uint64_t offset) {
    if (!to.mapped) return copyThroughStaging(to, offset, static_cast<unsigned char *>(const_cast<void *>(data)), bytes, true);
    std::memcpy(to.mapped + offset, data, bytes);
    return {};
}

Device::Failure Device::download(const Buffer &from, void *data, uint64_t bytes, uint64_t offset) {
    if (!from.mapped) return copyThroughStaging(from, offset, static_cast<unsigned char *>(data), bytes, false);
    std::memcpy(data, from.mapped + offset, bytes);
    return {};
}

Device::Failure Device::copyThroughStaging(const Buffer &buffer, uint64_t offset, unsigned char *data, uint64_t bytes, bool toDevice) {
    if (auto f = reserve(staging_, std::min(bytes, stagingBytes), true)) return f;
    for (uint64_t done = 0; done < bytes; done += staging_.size) {
        const uint64_t part = std::min(staging_.size, bytes - done);
        if (toDevice && data)
            std::memcpy(staging_.mapped, data + done, part);
        else if (toDevice)
            std::memset(staging_.mapped, 0, part);
        if (auto f = begin()) return f;
        const VkBufferCopy region = {toDevice ? 0 : offset + done, toDevice ? offset + done : 0, part};
        table_.CmdCopyBuffer(commands_, toDevice ? staging_.buffer : buffer.buffer, toDevice ? buffer.buffer : staging_.buffer, 1, &region);
        barrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        if (const VkResult r = table_.EndCommandBuffer(commands_)) return failed("vkEndCommandBuffer", r);
        if (auto f = submitAndWait(commands_)) return f;
        if (!toDevice) std::memcpy(data + done, staging_.mapped, part);
    }
    return {};
}

Device::Failure Device::makeTensor(Buffer &buffer, uint64_t bytes) {
    if (auto f = reserve(buffer, bytes, unified_)) return f;
    if (!buffer.mapped) return copyThroughStaging(buffer, 0, nullptr, buffer.size, true);
    std::memset(buffer.mapped, 0, buffer.size);
    return {};
}

void Device::freeTensor(Buffer &buffer) {
    (void)finish();
    release(buffer);
}

Device::Failure Device::readTensor(const Buffer &from, uint64_t offset, void *data, uint64_t bytes) {
    if (auto f = finish()) return f;
    return download(from, data, bytes, offset);
}

Device::Failure Device::writeTensor(Buffer &to, uint64_t offset, const void *data, uint64_t bytes) {
    if (auto f = finish()) return f;
    return upload(to, data, bytes, offset);
}

} // namespace vkattn
