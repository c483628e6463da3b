// Operations in one command buffer of their own, submitted any number of times.
#pragma once

#include "runtime/device.hpp"

namespace vkattn {

// An operation with the memory of its operands, or a shader of the host's with its own.
struct BoundOperation {
    vkattn_operation operation;
    std::vector<vkattn_binding> bindings; // without the workspace
    // Compute writes of earlier operations must be visible to this one.
    bool barrierBefore;
    const HostShader *shader; // NULL: the operation
};

class RecordedList {
  public:
    explicit RecordedList(Device &device) : device_(device) {}
    // Waits for what is submitted.
    ~RecordedList();
    RecordedList(const RecordedList &) = delete;
    RecordedList &operator=(const RecordedList &) = delete;

    // Plans, compiles and records. `failedAt` is the operation that a failure is about.
    [[nodiscard]] Device::Failure record(std::span<const BoundOperation *const> operations, size_t &failedAt);
    // The call waits for nothing, and allocates nothing.
    [[nodiscard]] Device::Failure submit();
    [[nodiscard]] Device::Failure submitTimed(double &milliseconds, bool &deviceTimestamps);

    [[nodiscard]] std::span<const vkattn_requirements> requirements() const { return requirements_; }
    [[nodiscard]] uint64_t workspaceBytes() const { return workspaceBytes_; }
    [[nodiscard]] uint32_t dispatchCount() const { return dispatchCount_; }

  private:
    [[nodiscard]] Device::Failure plan(std::span<const BoundOperation *const> operations, size_t &failedAt);
    [[nodiscard]] Device::Failure planShader(const HostShader &shader);
    [[nodiscard]] Device::Failure createPools();

    Device &device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    Buffer workspace_;
    std::vector<vkattn_requirements> requirements_;           // of each operation
    std::vector<const HostShaderPipeline *> shaderPipelines_; // of each operation, NULL but for shaders
    uint64_t workspaceBytes_ = 0;
    uint32_t dispatchCount_ = 0;
};

} // namespace vkattn
