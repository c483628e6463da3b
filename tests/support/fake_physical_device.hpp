// A physical device of the test's making behind a vkGetInstanceProcAddr: what drivers of any age answer before a device exists.
#pragma once

#include "vkattn/vkattn.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace vkattn::test {

struct FakePhysicalDevice {
    uint32_t apiVersion = VK_API_VERSION_1_3;
    bool instanceKnowsProperties2 = true; // false: an instance of Vulkan 1.0 without VK_KHR_get_physical_device_properties2
    std::vector<std::string> extensions = {"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls", "VK_EXT_subgroup_size_control",
                                           "VK_KHR_swapchain"};
    VkResult enumerating = VK_SUCCESS;
    bool subgroupSizeControl = true, computeFullSubgroups = true;
    int featureQueries = 0;
};
inline FakePhysicalDevice fake; // what is asked next

namespace faking {

inline VKAPI_ATTR void VKAPI_CALL getProperties(VkPhysicalDevice, VkPhysicalDeviceProperties *out) {
    *out = {};
    out->apiVersion = fake.apiVersion;
}
inline VKAPI_ATTR void VKAPI_CALL getProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
    getProperties(device, &out->properties);
}
inline VKAPI_ATTR void VKAPI_CALL getFeatures2(VkPhysicalDevice, VkPhysicalDeviceFeatures2 *out) {
    ++fake.featureQueries;
    for (auto *each = static_cast<VkBaseOutStructure *>(out->pNext); each; each = each->pNext)
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
            auto *part = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlFeatures *>(each);
            part->subgroupSizeControl = fake.subgroupSizeControl;
            part->computeFullSubgroups = fake.computeFullSubgroups;
        }
}
inline VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkPhysicalDevice, const char *, uint32_t *count, VkExtensionProperties *out) {
    if (fake.enumerating < 0) return fake.enumerating;
    const auto listed = static_cast<uint32_t>(fake.extensions.size());
    if (out)
        for (uint32_t n = 0; n < std::min(*count, listed); ++n) {
            out[n] = {};
            std::strncpy(out[n].extensionName, fake.extensions[n].c_str(), sizeof out[n].extensionName - 1);
        }
    *count = out ? std::min(*count, listed) : listed;
    return VK_SUCCESS;
}

} // namespace faking

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fakeGetInstanceProcAddr(VkInstance, const char *name) {
    const auto is = [&](const char *core) {
        const size_t length = std::strlen(core);
        return std::strncmp(name, core, length) == 0 && (name[length] == '\0' || std::strcmp(name + length, "KHR") == 0);
    };
    if (is("vkGetPhysicalDeviceProperties")) return reinterpret_cast<PFN_vkVoidFunction>(faking::getProperties);
    if (is("vkEnumerateDeviceExtensionProperties")) return reinterpret_cast<PFN_vkVoidFunction>(faking::enumerate);
    if (!fake.instanceKnowsProperties2) return nullptr;
    if (is("vkGetPhysicalDeviceProperties2")) return reinterpret_cast<PFN_vkVoidFunction>(faking::getProperties2);
    if (is("vkGetPhysicalDeviceFeatures2")) return reinterpret_cast<PFN_vkVoidFunction>(faking::getFeatures2);
    return nullptr;
}

} // namespace vkattn::test
