#include "core/device_table.hpp"

#include "core/caps.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

template <class Function> Function instanceFunction(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char *name) {
    return reinterpret_cast<Function>(get(instance, name));
}

} // namespace

vkattn_result DeviceTable::load(const vkattn_host &host, bool pushDescriptors, vkattn_diagnostic *why) {
    const auto getDeviceProcAddr =
        instanceFunction<PFN_vkGetDeviceProcAddr>(host.getInstanceProcAddr, host.instance, "vkGetDeviceProcAddr");
    if (!getDeviceProcAddr) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "host.getInstanceProcAddr does not know vkGetDeviceProcAddr");
#define VKATTN_LOAD(name)                                                                                                                  \
    name = reinterpret_cast<PFN_vk##name>(getDeviceProcAddr(host.device, "vk" #name));                                                     \
    if (!name) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "the device does not know vk" #name);
    VKATTN_DEVICE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
    if (pushDescriptors)
        CmdPushDescriptorSet = reinterpret_cast<PFN_vkCmdPushDescriptorSetKHR>(getDeviceProcAddr(host.device, "vkCmdPushDescriptorSetKHR"));
    if (host.debugLabels) { // an extension of the instance, so that its functions are found there
#define VKATTN_LOAD_LABEL(name) name = instanceFunction<PFN_vk##name##EXT>(host.getInstanceProcAddr, host.instance, "vk" #name "EXT");
        VKATTN_LOAD_LABEL(CmdBeginDebugUtilsLabel)
        VKATTN_LOAD_LABEL(CmdEndDebugUtilsLabel)
        VKATTN_LOAD_LABEL(SetDebugUtilsObjectName)
#undef VKATTN_LOAD_LABEL
        if (!CmdEndDebugUtilsLabel) CmdBeginDebugUtilsLabel = nullptr; // both or none
    }
    return VKATTN_OK;
}

namespace {

void readProperties(const PhysicalDevice &device, void *into) {
    VkPhysicalDeviceProperties2 chain{};
    chain.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    chain.pNext = into;
    device.getProperties2(device.handle, &chain);
}

} // namespace

Caps readCaps(const PhysicalDevice &device, const Enabled &enabled) {
    Caps out = capsFromLimits(device.properties);
    out.pushDescriptors = enabled.extensions.has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    if (!device.getProperties2) return out;
    if (enabled.version >= VK_API_VERSION_1_1) {
        VkPhysicalDeviceSubgroupProperties subgroups{};
        subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
        readProperties(device, &subgroups);
        const VkSubgroupFeatureFlags wanted = VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT;
        out.subgroupSize = subgroups.subgroupSize;
        if (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
            out.subgroupShuffle = (subgroups.supportedOperations & wanted) == wanted;
            out.subgroupClustered = (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_CLUSTERED_BIT) != 0;
        }
        out.fullSubgroups = enabled.has(fullSubgroupsFeature);
    }
    if (enabled.version >= VK_API_VERSION_1_2 || enabled.extensions.has(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) {
        VkPhysicalDeviceFloatControlsProperties controls{};
        controls.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
        readProperties(device, &controls);
        out.floatControlsNan = controls.shaderSignedZeroInfNanPreserveFloat32 ? 1 : 0;
    }
    return out;
}

SubgroupSizes readSubgroupSizes(const PhysicalDevice &device, const Enabled &enabled) {
    if (!device.getProperties2 || !enabled.has(fullSubgroupsFeature)) return {};
    VkPhysicalDeviceSubgroupSizeControlProperties control{};
    control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    VkPhysicalDeviceSubgroupProperties subgroups{};
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroups.pNext = &control;
    readProperties(device, &subgroups);
    if (!enabled.has(subgroupSizeControlFeature) || !(control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT))
        return {subgroups.subgroupSize, 0, 0, 0};
    return {subgroups.subgroupSize, control.minSubgroupSize, control.maxSubgroupSize, control.maxComputeWorkgroupSubgroups};
}

} // namespace vkattn
