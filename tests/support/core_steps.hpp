// The steps that a host takes with a context, one by one, for tests that let every step fail in
// every way. Nothing is submitted.
#pragma once

#include "vkattn/vkattn.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vkattn::test {

struct CoreStep {
    std::string name; // "create", "query", "prewarm", "record", "export", "import", "self-test"
    vkattn_result result = VKATTN_OK;
    std::string message;
};

// One small operation of every kind, with all its operands; attention with each of three kernels.
class SmallOperations {
  public:
    SmallOperations();
    SmallOperations(const SmallOperations &) = delete;
    SmallOperations &operator=(const SmallOperations &) = delete;

    // They live as long as this object.
    [[nodiscard]] const std::vector<vkattn_operation> &all() const { return all_; }
    // Those that are not attention.
    [[nodiscard]] std::vector<vkattn_operation> others() const { return {all_.begin() + attentionCount, all_.end()}; }

  private:
    static constexpr int attentionCount = 3;
    vkattn_problem attention_[attentionCount];
    vkattn_projection projection_;
    vkattn_norm norm_;
    vkattn_rotary rotary_;
    vkattn_append append_;
    vkattn_advance advance_;
    vkattn_mean mean_;
    vkattn_merge merge_;
    vkattn_hadamard hadamard_;
    vkattn_keep keep_;
    vkattn_problem forward_;
    vkattn_attention_gradient gradient_;
    vkattn_norm_gradient normGradient_;
    vkattn_drop drop_;
    vkattn_attention_statistics statistics_;
    vkattn_problem masked_;
    vkattn_visible_blocks visibleBlocks_;
    vkattn_linear_attention linear_;
    vkattn_linear_gradient linearGradient_;
    std::vector<vkattn_operation> all_;
};

struct CoreHost {
    vkattn_host host{};
    std::vector<vkattn_operation> operations; // each is queried, compiled and recorded
    // Operands and workspace of one operation after the other, or the self-test.
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t bufferBytes = 0;
    void *mapped = nullptr;
    // Called before each recording: returns an empty command buffer, and a pool (VK_NULL_HANDLE:
    // push descriptors) with room for that much.
    struct Target {
        VkCommandBuffer commands = VK_NULL_HANDLE;
        VkDescriptorPool pool = VK_NULL_HANDLE;
    };
    std::function<Target(uint32_t sets, uint32_t descriptors)> begin;
    std::function<void(const std::string &step)> phase; // before each step
};

// Takes every step in order, then destroys the context. A step that fails is repeated, and has to
// work then: `again` says what else the repetition returned.
struct CoreSteps {
    std::vector<CoreStep> failed;
    std::vector<std::string> again;
};
[[nodiscard]] CoreSteps runCoreSteps(const CoreHost &on);

// At most one step failed, for want of host memory, and says so.
void expectOnlyOutOfHostMemory(const CoreSteps &steps, uint64_t allocation);

} // namespace vkattn::test
