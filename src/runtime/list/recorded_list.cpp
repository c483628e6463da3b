#include "runtime/list/recorded_list.hpp"

#include <algorithm>

namespace vkattn {

RecordedList::~RecordedList() {
    (void)device_.finish();
    const RuntimeDeviceTable &table = device_.table_;
    if (descriptors_) table.DestroyDescriptorPool(device_.device_, descriptors_, nullptr);
    if (pool_) table.DestroyCommandPool(device_.device_, pool_, nullptr);
    device_.release(workspace_);
}

Device::Failure RecordedList::plan(std::span<const BoundOperation *const> operations, size_t &failedAt) {
    requirements_.clear();
    shaderPipelines_.clear();
    for (failedAt = 0; failedAt < operations.size(); ++failedAt) {
        if (operations[failedAt]->shader) {
            if (auto f = planShader(*operations[failedAt]->shader)) return f;
            continue;
        }
        shaderPipelines_.push_back(nullptr);
        const vkattn_operation &operation = operations[failedAt]->operation;
        vkattn_requirements &needs = requirements_.emplace_back();
        needs.structSize = sizeof needs;
        vkattn_diagnostic why{};
        vkattn_result r = vkattnQueryOperation(device_.context(), &operation, &needs, &why);
        if (r == VKATTN_OK) r = vkattnPrewarmOperations(device_.context(), &operation, 1, &why);
        if (r != VKATTN_OK) return {static_cast<VkResult>(why.vkResult), r, why.message};
        workspaceBytes_ = std::max(workspaceBytes_, needs.workspaceBytes);
        dispatchCount_ += needs.dispatchCount;
    }
    return {};
}

Device::Failure RecordedList::planShader(const HostShader &shader) {
    const HostShaderPipeline *pipeline = nullptr;
    if (auto f = device_.findPipeline(shader, pipeline)) return f;
    shaderPipelines_.push_back(pipeline);
    vkattn_requirements &needs = requirements_.emplace_back();
    needs.structSize = sizeof needs;
    needs.dispatchCount = 1;
    if (!device_.table_.CmdPushDescriptorSet) {
        needs.descriptorSetCount = 1;
        needs.storageDescriptorCount = static_cast<uint32_t>(shader.buffers.size());
    }
    ++dispatchCount_;
    return {};
}

Device::Failure RecordedList::createPools() {
    if (auto f = device_.createCommandBuffer(pool_, commands_)) return f;
    uint32_t sets = 0, descriptors = 0;
    for (const vkattn_requirements &needs : requirements_) {
        sets += needs.descriptorSetCount;
        descriptors += needs.storageDescriptorCount;
    }
    return sets == 0 ? Device::Failure{} : device_.createDescriptorPool(sets, descriptors, descriptors_);
}

Device::Failure RecordedList::record(std::span<const BoundOperation *const> operations, size_t &failedAt) {
    if (auto f = plan(operations, failedAt)) return f;
    failedAt = 0;
    if (auto f = createPools()) return f;
    if (workspaceBytes_)
        if (auto f = device_.reserve(workspace_, workspaceBytes_, false)) return f;
    // A replay may be submitted before the one before has finished.
    if (auto f = device_.begin(commands_, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT)) return f;
    device_.startTimed(commands_);
    // An operation's dispatches write their workspace, and read what they wrote: operations that
    // share a workspace wait for each other.
    bool workspaceInUse = false; // since the last barrier
    for (failedAt = 0; failedAt < operations.size(); ++failedAt) {
        const BoundOperation &each = *operations[failedAt];
        std::vector<vkattn_binding> bindings = each.bindings;
        const bool uses = requirements_[failedAt].workspaceBytes > 0, shared = uses && workspaceInUse;
        if (uses) bindings.push_back({VKATTN_WORKSPACE, workspace_.buffer, 0, workspace_.size});
        if (each.barrierBefore || shared) {
            device_.computeBarrier(commands_);
            workspaceInUse = false;
        }
        workspaceInUse = workspaceInUse || uses;
        if (auto f = each.shader ? device_.recordShader(commands_, *each.shader, *shaderPipelines_[failedAt], descriptors_)
                                 : device_.recordOperation(commands_, each.operation, bindings, descriptors_, 0))
            return f;
    }
    failedAt = 0;
    return device_.endTimed(commands_);
}

Device::Failure RecordedList::submit() {
    return device_.submit(commands_);
}

Device::Failure RecordedList::submitTimed(double &milliseconds, bool &deviceTimestamps) {
    return device_.submitTimed(commands_, milliseconds, deviceTimestamps);
}

} // namespace vkattn
