#include "core/caps.hpp"

#include "util/diagnostic.hpp"

#include <algorithm>
#include <bit>

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

vkattn_result checkCaps(const Caps &caps, const char *name, vkattn_diagnostic *why) {
    constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;
    if (caps.structSize != sizeof(vkattn_caps))
        return fail(why, invalid, "%s: structSize is %u, expected sizeof(vkattn_caps) = %zu", name, caps.structSize, sizeof(vkattn_caps));
    if (const uint32_t alignment = caps.minStorageBufferOffsetAlignment; alignment && !std::has_single_bit(alignment))
        return fail(why, invalid, "%s: minStorageBufferOffsetAlignment is %u, expected a power of two, as Vulkan requires", name,
                    alignment);
    if (caps.subgroupSize && !std::has_single_bit(caps.subgroupSize))
        return fail(why, invalid, "%s: subgroupSize is %u, expected a power of two, as Vulkan requires, or 0 for unknown", name,
                    caps.subgroupSize);
    if (caps.subgroupSize == 0 && (caps.subgroupShuffle || caps.subgroupClustered || caps.fullSubgroups))
        return fail(why, invalid, "%s: subgroup operations are set, and subgroupSize is 0; set the device's size, or leave them 0", name);
    return VKATTN_OK;
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
