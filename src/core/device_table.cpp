#include "core/device_table.hpp"

#include "core/caps.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

template <class Function> Function instanceFunction(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char *name) {
    return reinterpret_cast<Function>(get(instance, name));
}

} // namespace

bool EnabledExtensions::has(const char *name) const {
    return std::any_of(names, names + count, [&](const char *enabled) { return enabled && std::strcmp(enabled, name) == 0; });
}

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
    return VKATTN_OK;
}

vkattn_result readCaps(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice physicalDevice, uint32_t apiVersion,
                       const EnabledExtensions &extensions, vkattn_caps &out, vkattn_diagnostic *why) {
    const auto getProperties = instanceFunction<PFN_vkGetPhysicalDeviceProperties>(get, instance, "vkGetPhysicalDeviceProperties");
    if (!getProperties) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "getInstanceProcAddr does not know vkGetPhysicalDeviceProperties");
    VkPhysicalDeviceProperties properties;
    getProperties(physicalDevice, &properties);
    out = capsFromLimits(properties);
    out.pushDescriptors = extensions.has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);

    // What the instance was created with bounds what its devices may be used with.
    const uint32_t usable = std::min(apiVersion ? apiVersion : VK_API_VERSION_1_0, properties.apiVersion);
    auto getProperties2 = instanceFunction<PFN_vkGetPhysicalDeviceProperties2>(get, instance, "vkGetPhysicalDeviceProperties2");
    if (!getProperties2)
        getProperties2 = instanceFunction<PFN_vkGetPhysicalDeviceProperties2>(get, instance, "vkGetPhysicalDeviceProperties2KHR");
    if (!getProperties2) return VKATTN_OK;
    const auto read = [&](void *into) {
        VkPhysicalDeviceProperties2 chain{};
        chain.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
        chain.pNext = into;
        getProperties2(physicalDevice, &chain);
    };
    if (usable >= VK_API_VERSION_1_1) {
        VkPhysicalDeviceSubgroupProperties subgroups{};
        subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
        read(&subgroups);
        const VkSubgroupFeatureFlags wanted = VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT;
        out.subgroupSize = subgroups.subgroupSize;
        if (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
            out.subgroupShuffle = (subgroups.supportedOperations & wanted) == wanted;
            out.subgroupClustered = (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_CLUSTERED_BIT) != 0;
        }
    }
    if (usable >= VK_API_VERSION_1_2 || extensions.has(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) {
        VkPhysicalDeviceFloatControlsProperties controls{};
        controls.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
        read(&controls);
        out.floatControlsNan = controls.shaderSignedZeroInfNanPreserveFloat32 ? 1 : 0;
    }
    return VKATTN_OK;
}

} // namespace vkattn
