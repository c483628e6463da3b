// A physical device of the test's making behind a vkGetInstanceProcAddr. It answers the questions
// before a device exists as drivers of any age do.
#pragma once

#include "core/device/newer_vulkan.hpp"
#include "vkattn/vkattn.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace vkattn::test {

struct FakePhysicalDevice {
    uint32_t apiVersion = VK_API_VERSION_1_3;
    uint32_t instanceVersion = VK_API_VERSION_1_3; // of the loader
    // false: an instance of Vulkan 1.0 without VK_KHR_get_physical_device_properties2.
    bool instanceKnowsProperties2 = true;
    std::vector<std::string> extensions = {"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls", "VK_EXT_subgroup_size_control",
                                           "VK_KHR_swapchain"};
    VkResult enumerating = VK_SUCCESS;
    bool subgroupSizeControl = true, computeFullSubgroups = true;
    int featureQueries = 0;
    // Bits of further feature structs, in their order.
    std::map<VkStructureType, std::vector<VkBool32>> features;
    VkPhysicalDeviceSubgroupProperties subgroups{};
    VkPhysicalDeviceSubgroupSizeControlProperties sizeControl{};
    VkShaderStageFlags matrixStages = VK_SHADER_STAGE_COMPUTE_BIT;
    uint32_t flexibleMaxDimension = 0;
    std::vector<newer::CooperativeMatrixShape> shapes;
    std::vector<newer::FlexibleDimensions> flexible;

    // The extensions and features that the matrix kernels look for.
    void makeMatrixUnits() {
        extensions.insert(extensions.end(), {"VK_KHR_cooperative_matrix", "VK_NV_cooperative_matrix2", "VK_KHR_shader_bfloat16",
                                             "VK_KHR_shader_float16_int8", "VK_KHR_vulkan_memory_model"});
        features[VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES] = {1, 1};
        features[VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES] = {1, 1, 1};
        features[VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES] = {1};
        features[newer::cooperativeMatrixFeaturesType] = {1, 0};
        features[newer::shaderBfloat16FeaturesType] = {1, 0, 1};
        features[newer::cooperativeMatrix2FeaturesType] = {1, 1, 1, 1, 1, 1, 1};
        subgroups = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, nullptr, 32, VK_SHADER_STAGE_COMPUTE_BIT, 0xff, VK_FALSE};
        sizeControl = {
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, nullptr, 32, 64, 16, VK_SHADER_STAGE_COMPUTE_BIT};
        flexibleMaxDimension = 256;
    }
    void addShape(uint32_t m, uint32_t n, uint32_t k, int32_t inputs, int32_t sums, int32_t scope = newer::scopeSubgroup) {
        shapes.push_back({newer::cooperativeMatrixShapeType, nullptr, m, n, k, inputs, inputs, sums, sums, VK_FALSE, scope});
    }
    void addFlexible(uint32_t m, uint32_t n, uint32_t k, int32_t inputs, int32_t sums, int32_t scope) {
        flexible.push_back({newer::flexibleDimensionsType, nullptr, m, n, k, inputs, inputs, sums, sums, VK_FALSE, scope, 0});
    }
};
inline FakePhysicalDevice fake; // what is asked next

namespace faking {

inline VKAPI_ATTR VkResult VKAPI_CALL enumerateVersion(uint32_t *out) {
    *out = fake.instanceVersion;
    return VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL getProperties(VkPhysicalDevice, VkPhysicalDeviceProperties *out) {
    *out = {};
    out->apiVersion = fake.apiVersion;
    VkPhysicalDeviceLimits &limits = out->limits;
    limits.maxStorageBufferRange = 1u << 30;
    limits.minStorageBufferOffsetAlignment = 16;
    limits.maxPerStageDescriptorStorageBuffers = 64;
    limits.maxPushConstantsSize = 256;
    limits.maxComputeWorkGroupInvocations = 1024;
    for (uint32_t &size : limits.maxComputeWorkGroupSize) size = 1024;
    for (uint32_t &count : limits.maxComputeWorkGroupCount) count = 65535;
    limits.maxComputeSharedMemorySize = 65536;
}
inline VKAPI_ATTR void VKAPI_CALL getProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
    getProperties(device, &out->properties);
    for (auto *each = static_cast<VkBaseOutStructure *>(out->pNext); each; each = each->pNext) {
        VkBaseOutStructure *const next = each->pNext;
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES)
            *reinterpret_cast<VkPhysicalDeviceSubgroupProperties *>(each) = fake.subgroups;
        else if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES)
            *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties *>(each) = fake.sizeControl;
        else if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES)
            reinterpret_cast<VkPhysicalDeviceFloatControlsProperties *>(each)->shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE;
        else if (each->sType == newer::cooperativeMatrixPropertiesType)
            reinterpret_cast<newer::CooperativeMatrixProperties *>(each)->cooperativeMatrixSupportedStages = fake.matrixStages;
        else if (each->sType == newer::cooperativeMatrix2PropertiesType)
            reinterpret_cast<newer::CooperativeMatrix2Properties *>(each)->flexibleDimensionsMaxDimension = fake.flexibleMaxDimension;
        each->pNext = next;
    }
}
inline VKAPI_ATTR void VKAPI_CALL getFeatures2(VkPhysicalDevice, VkPhysicalDeviceFeatures2 *out) {
    ++fake.featureQueries;
    for (auto *each = static_cast<VkBaseOutStructure *>(out->pNext); each; each = each->pNext) {
        if (const auto found = fake.features.find(each->sType); found != fake.features.end())
            std::memcpy(each + 1, found->second.data(), found->second.size() * sizeof(VkBool32));
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
            auto *part = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlFeatures *>(each);
            part->subgroupSizeControl = fake.subgroupSizeControl;
            part->computeFullSubgroups = fake.computeFullSubgroups;
        }
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

template <class Item> VkResult answer(const std::vector<Item> &items, uint32_t *count, Item *out) {
    const auto listed = static_cast<uint32_t>(items.size());
    const uint32_t room = *count;
    *count = out ? std::min(room, listed) : listed;
    if (out) std::copy_n(items.begin(), *count, out);
    return out && room < listed ? VK_INCOMPLETE : VK_SUCCESS;
}
inline VKAPI_ATTR VkResult VKAPI_CALL getShapes(VkPhysicalDevice, uint32_t *count, newer::CooperativeMatrixShape *out) {
    return answer(fake.shapes, count, out);
}
inline VKAPI_ATTR VkResult VKAPI_CALL getFlexible(VkPhysicalDevice, uint32_t *count, newer::FlexibleDimensions *out) {
    return answer(fake.flexible, count, out);
}

} // namespace faking

inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fakeGetInstanceProcAddr(VkInstance instance, const char *name) {
    if (!instance)
        return std::strcmp(name, "vkEnumerateInstanceVersion") == 0 ? reinterpret_cast<PFN_vkVoidFunction>(faking::enumerateVersion)
                                                                    : nullptr;
    const auto is = [&](const char *core) {
        const size_t length = std::strlen(core);
        return std::strncmp(name, core, length) == 0 && (name[length] == '\0' || std::strcmp(name + length, "KHR") == 0);
    };
    if (is("vkGetPhysicalDeviceProperties")) return reinterpret_cast<PFN_vkVoidFunction>(faking::getProperties);
    if (is("vkEnumerateDeviceExtensionProperties")) return reinterpret_cast<PFN_vkVoidFunction>(faking::enumerate);
    if (!fake.instanceKnowsProperties2) return nullptr;
    if (is("vkGetPhysicalDeviceProperties2")) return reinterpret_cast<PFN_vkVoidFunction>(faking::getProperties2);
    if (is("vkGetPhysicalDeviceFeatures2")) return reinterpret_cast<PFN_vkVoidFunction>(faking::getFeatures2);
    if (is(newer::getCooperativeMatrixShapesName)) return reinterpret_cast<PFN_vkVoidFunction>(faking::getShapes);
    if (is(newer::getFlexibleDimensionsName)) return reinterpret_cast<PFN_vkVoidFunction>(faking::getFlexible);
    return nullptr;
}

} // namespace vkattn::test
