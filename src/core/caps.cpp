#include "core/caps.hpp"

#include <algorithm>

namespace vkattn {

Caps capsFromLimits(const VkPhysicalDeviceProperties &properties) {
    const VkPhysicalDeviceLimits &limits = properties.limits;
    Caps caps{};
    caps.structSize = sizeof caps;
    caps.deviceType = static_cast<uint32_t>(properties.deviceType);
    caps.maxStorageBufferRange = limits.maxStorageBufferRange;
    caps.minStorageBufferOffsetAlignment = static_cast<uint32_t>(limits.minStorageBufferOffsetAlignment);
    caps.maxStorageBuffersPerStage = limits.maxPerStageDescriptorStorageBuffers;
    caps.maxPushConstantsBytes = limits.maxPushConstantsSize;
    caps.maxWorkgroupInvocations = limits.maxComputeWorkGroupInvocations;
    std::copy_n(limits.maxComputeWorkGroupSize, 3, caps.maxWorkgroupSize);
    std::copy_n(limits.maxComputeWorkGroupCount, 3, caps.maxWorkgroupCount);
    caps.maxSharedMemoryBytes = limits.maxComputeSharedMemorySize;
    return caps;
}

Caps weakerCaps(const Caps &a, const Caps &b) {
    Caps weak = a;
    weak.deviceType = b.deviceType;
    weak.maxStorageBufferRange = std::min(a.maxStorageBufferRange, b.maxStorageBufferRange);
    weak.minStorageBufferOffsetAlignment = std::max(a.minStorageBufferOffsetAlignment, b.minStorageBufferOffsetAlignment);
    weak.maxStorageBuffersPerStage = std::min(a.maxStorageBuffersPerStage, b.maxStorageBuffersPerStage);
    weak.maxPushConstantsBytes = std::min(a.maxPushConstantsBytes, b.maxPushConstantsBytes);
    weak.maxWorkgroupInvocations = std::min(a.maxWorkgroupInvocations, b.maxWorkgroupInvocations);
    for (int d = 0; d < 3; ++d) {
        weak.maxWorkgroupSize[d] = std::min(a.maxWorkgroupSize[d], b.maxWorkgroupSize[d]);
        weak.maxWorkgroupCount[d] = std::min(a.maxWorkgroupCount[d], b.maxWorkgroupCount[d]);
    }
    weak.maxSharedMemoryBytes = std::min(a.maxSharedMemoryBytes, b.maxSharedMemoryBytes);
    weak.pushDescriptors = std::min(a.pushDescriptors, b.pushDescriptors);
    weak.subgroupSize = std::min(a.subgroupSize, b.subgroupSize);
    weak.subgroupShuffle = std::min(a.subgroupShuffle, b.subgroupShuffle);
    weak.subgroupClustered = std::min(a.subgroupClustered, b.subgroupClustered);
    weak.fullSubgroups = std::min(a.fullSubgroups, b.fullSubgroups);
    weak.floatControlsNan = std::min(a.floatControlsNan, b.floatControlsNan);
    return weak;
}

} // namespace vkattn
