// The pipelines of one context, by PipelineKey. A key is compiled as it is: the plan decides all
// constants. Looking a pipeline up takes no lock and allocates nothing.
#pragma once

#include "core/device/callbacks.hpp"
#include "core/device/device_table.hpp"
#include "core/plan/plan.hpp"
#include "core/vulkan/cache.hpp"

#include <atomic>

namespace vkattn {

struct Spirv;
struct Specialization;

struct PipelineLayout {
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    VkPipelineLayout pipelines = VK_NULL_HANDLE;
};

class Pipelines {
  public:
    [[nodiscard]] vkattn_result create(const DeviceTable &table, const vkattn_host &host, const Caps &caps, uint32_t deviceSubgroupSize,
                                       const PipelineCaches &caches, vkattn_diagnostic *why);
    void destroy();

    // Returns VK_NULL_HANDLE where the pipeline is not compiled yet.
    [[nodiscard]] VkPipeline find(const PipelineKey &key) const;
    // Compiles the pipelines of the set that are missing. Two threads may compile the same
    // pipeline; the first to finish wins.
    [[nodiscard]] vkattn_result compile(const PipelineSet &set, vkattn_diagnostic *why);
    [[nodiscard]] bool has(const PipelineSet &set) const;

    [[nodiscard]] const PipelineLayout &layout(Module module) const {
        uint32_t n = 0;
        while (slotCounts[n] < infoOf(module).slots) ++n;
        return layouts_[n];
    }
    [[nodiscard]] uint32_t compiledCount() const { return compiled_; }
    [[nodiscard]] uint64_t compileNanoseconds() const { return nanoseconds_; }

  private:
    // Nodes are pushed at the head, never moved and never removed before destroy(): a reader needs
    // no more than an acquire.
    struct Node {
        PipelineKey key;
        VkPipeline pipeline;
        Node *next;
    };
    static constexpr uint32_t bucketCount = 128;

    [[nodiscard]] vkattn_result createLayout(uint32_t slots, bool pushDescriptors, PipelineLayout &layout, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result createModule(const char *name, const Spirv &spirv, const Specialization &specialization,
                                             VkShaderModule &module, vkattn_diagnostic *why);
    [[nodiscard]] vkattn_result compileOne(const PipelineKey &key, vkattn_diagnostic *why);
    // Names an object for debuggers, where the host wants labels.
    void giveName(VkObjectType type, uint64_t object, const char *name) const;
    // Takes ownership of both. The node belongs to the pipeline.
    void insert(const PipelineKey &key, VkPipeline pipeline, Node *node);
    static const Node *search(const Node *from, const PipelineKey &key);

    const DeviceTable *table_ = nullptr;
    VkDevice device_ = VK_NULL_HANDLE;
    const PipelineCaches *caches_ = nullptr;
    const VkAllocationCallbacks *allocator_ = nullptr;
    Caps caps_{};
    uint32_t deviceSubgroupSize_ = 0; // caps_.subgroupSize may be a limit that the host has set
    Log log_;
    PipelineLayout layouts_[sizeof slotCounts / sizeof slotCounts[0]]; // one for each of slotCounts
    std::atomic<Node *> buckets_[bucketCount] = {};
    std::atomic<uint32_t> compiled_{0};
    std::atomic<uint64_t> nanoseconds_{0};
};

} // namespace vkattn
