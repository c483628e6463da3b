// The pipelines of one context: one slot per PipelineKey, filled once. Looking one up takes no lock and calls nothing.
#pragma once

#include "core/device_table.hpp"
#include "core/plan.hpp"

#include <atomic>

namespace vkattn {

class Pipelines {
  public:
    [[nodiscard]] vkattn_result create(const DeviceTable &table, const vkattn_host &host, const Caps &caps, vkattn_diagnostic *why);
    void destroy();

    [[nodiscard]] VkPipeline find(const PipelineKey &key) const { return slots_[key.index()].load(std::memory_order_acquire); }
    // Compiles what is missing of the set. Two threads may compile the same one; the first to finish wins.
    [[nodiscard]] vkattn_result compile(const PipelineSet &set, vkattn_diagnostic *why);
    [[nodiscard]] bool has(const PipelineSet &set) const;

    [[nodiscard]] VkPipelineLayout layout() const { return layout_; }
    [[nodiscard]] VkDescriptorSetLayout setLayout() const { return setLayout_; }
    [[nodiscard]] uint32_t compiledCount() const { return compiled_; }
    [[nodiscard]] uint64_t compileNanoseconds() const { return nanoseconds_; }

  private:
    [[nodiscard]] vkattn_result compileOne(const PipelineKey &key, vkattn_diagnostic *why);

    const DeviceTable *table_ = nullptr;
    VkDevice device_ = VK_NULL_HANDLE;
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    const VkAllocationCallbacks *allocator_ = nullptr;
    StagedTuning tuning_{};
    bool nanPreserving_ = false;
    VkDescriptorSetLayout setLayout_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    std::atomic<VkPipeline> slots_[pipelineKeyCount] = {};
    std::atomic<uint32_t> compiled_{0};
    std::atomic<uint64_t> nanoseconds_{0};
};

} // namespace vkattn
