// VkAllocationCallbacks that count, know what is still theirs, and run out on demand. Any thread.
#pragma once

#include <vulkan/vulkan_core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace vkattn::test {

class CountingAllocator {
  public:
    // The allocation of this number (from 0) answers NULL, and only that one.
    uint64_t failAt = UINT64_MAX;
    VkAllocationCallbacks callbacks{this, allocate, reallocate, free, nullptr, nullptr};

    [[nodiscard]] uint64_t calls() const {
        const std::lock_guard lock(mutex_);
        return calls_;
    }
    [[nodiscard]] size_t live() const {
        const std::lock_guard lock(mutex_);
        return live_.size();
    }
    [[nodiscard]] uint32_t strangers() const { // freed and not given by these
        const std::lock_guard lock(mutex_);
        return strangers_;
    }

  private:
    struct Block {
        size_t bytes, alignment;
    };
    void *take(size_t bytes, size_t alignment) {
        const std::lock_guard lock(mutex_);
        if (calls_++ == failAt) return nullptr;
        void *memory = ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
        if (memory) live_[memory] = {bytes, alignment};
        return memory;
    }
    void give(void *memory) {
        if (!memory) return;
        const std::lock_guard lock(mutex_);
        const auto found = live_.find(memory);
        if (found == live_.end()) {
            ++strangers_;
            return;
        }
        ::operator delete (memory, std::align_val_t{found->second.alignment});
        live_.erase(found);
    }
    size_t bytesOf(void *memory) const {
        const std::lock_guard lock(mutex_);
        const auto found = live_.find(memory);
        return found == live_.end() ? 0 : found->second.bytes;
    }
    static void *VKAPI_CALL allocate(void *self, size_t bytes, size_t alignment, VkSystemAllocationScope) {
        return static_cast<CountingAllocator *>(self)->take(bytes, alignment);
    }
    static void *VKAPI_CALL reallocate(void *self, void *before, size_t bytes, size_t alignment, VkSystemAllocationScope) {
        auto &own = *static_cast<CountingAllocator *>(self);
        void *memory = bytes ? own.take(bytes, alignment) : nullptr;
        if (before && memory) std::memcpy(memory, before, std::min(bytes, own.bytesOf(before)));
        if (memory || !bytes) own.give(before);
        return memory;
    }
    static void VKAPI_CALL free(void *self, void *memory) { static_cast<CountingAllocator *>(self)->give(memory); }

    mutable std::mutex mutex_;
    uint64_t calls_ = 0;
    uint32_t strangers_ = 0;
    std::map<void *, Block> live_;
};

} // namespace vkattn::test
