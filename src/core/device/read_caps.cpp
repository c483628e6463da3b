#include "core/device/read_caps.hpp"

#include <algorithm>

namespace vkattn {
namespace {

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

void readProperties(const PhysicalDevice &device, void *into) {
    VkPhysicalDeviceProperties2 chain{};
    chain.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    chain.pNext = into;
    device.getProperties2(device.handle, &chain);
}

void readSubgroups(const PhysicalDevice &device, const Enabled &enabled, Caps &out) {
    VkPhysicalDeviceSubgroupProperties subgroups{};
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    readProperties(device, &subgroups);
    const VkSubgroupFeatureFlags wanted = VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT;
    out.subgroupSize = subgroups.subgroupSize;
    if (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
        out.subgroupShuffle = (subgroups.supportedOperations & wanted) == wanted;
        out.subgroupClustered = (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_CLUSTERED_BIT) != 0;
    }
    out.fullSubgroups = enabled.has(Feature::fullSubgroups);
    if (!enabled.has(Feature::subgroupSizeControl)) return;
    VkPhysicalDeviceSubgroupSizeControlProperties control{};
    control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    readProperties(device, &control);
    if (!(control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) || control.minSubgroupSize == 0) return;
    out.minSubgroupSize = control.minSubgroupSize;
    out.maxSubgroupSize = control.maxSubgroupSize;
    out.maxWorkgroupSubgroups = control.maxComputeWorkgroupSubgroups;
}

// Reads the list of a vkGetPhysicalDevice...Properties function, as far as the list fits.
template <class Item, uint32_t room>
uint32_t list(VkResult(VKAPI_PTR *get)(VkPhysicalDevice, uint32_t *, Item *), const PhysicalDevice &device, VkStructureType type,
              Item (&items)[room]) {
    for (Item &each : items) each.sType = type;
    uint32_t count = room;
    return get && get(device.handle, &count, items) >= 0 ? std::min(count, room) : 0;
}

void readShapes(const PhysicalDevice &device, const Enabled &enabled, Caps &out) {
    const bool bfloat16 = enabled.has(Feature::bfloat16) && enabled.has(Feature::bfloat16Matrix);
    // Drivers list up to about 40, most with integers.
    newer::CooperativeMatrixShape shapes[128] = {};
    const uint32_t listed = list(device.getMatrixShapes, device, newer::cooperativeMatrixShapeType, shapes);
    for (uint32_t n = 0; n < listed && out.matrixShapeCount < VKATTN_MAX_MATRIX_SHAPES; ++n) {
        const newer::CooperativeMatrixShape &s = shapes[n];
        const bool half = s.a == newer::componentFloat16, suits = half || (bfloat16 && s.a == newer::componentBfloat16);
        if (!suits || s.b != s.a || s.c != newer::componentFloat32 || s.result != s.c || s.scope != newer::scopeSubgroup) continue;
        const vkattn_matrix_shape shape = {s.m, s.n, s.k, half ? VKATTN_F16 : VKATTN_BF16};
        if (shape.m && shape.n && shape.k && !hasShape(out, shape)) out.matrixShapes[out.matrixShapeCount++] = shape;
    }
}

void readMatrix2(const PhysicalDevice &device, const Enabled &enabled, Caps &out) {
    static constexpr struct {
        Feature feature;
        vkattn_matrix2_bits bit;
    } bits[] = {
        {Feature::matrix2Flexible, VKATTN_MATRIX2_FLEXIBLE},        {Feature::matrix2Reductions, VKATTN_MATRIX2_REDUCTIONS},
        {Feature::matrix2Conversions, VKATTN_MATRIX2_CONVERSIONS},  {Feature::matrix2PerElement, VKATTN_MATRIX2_PER_ELEMENT},
        {Feature::matrix2TensorLoads, VKATTN_MATRIX2_TENSOR_LOADS}, {Feature::matrix2WorkgroupScope, VKATTN_MATRIX2_WORKGROUP_SCOPE}};
    for (const auto &each : bits)
        if (enabled.has(each.feature)) out.matrix2 |= each.bit;
    if (!(out.matrix2 & VKATTN_MATRIX2_FLEXIBLE)) return;
    newer::FlexibleDimensions kinds[64] = {};
    const uint32_t listed = list(device.getFlexibleDimensions, device, newer::flexibleDimensionsType, kinds);
    const newer::FlexibleDimensions *const begin = kinds, *const end = kinds + listed;
    const newer::FlexibleDimensions *const found = std::find_if(begin, end, [](const newer::FlexibleDimensions &k) {
        return k.a == newer::componentFloat16 && k.b == k.a && k.c == newer::componentFloat32 && k.result == k.c &&
               k.scope == newer::scopeSubgroup && k.mGranularity && k.nGranularity && k.kGranularity;
    });
    if (found == end) return;
    newer::CooperativeMatrix2Properties properties{};
    properties.sType = newer::cooperativeMatrix2PropertiesType;
    readProperties(device, &properties);
    out.matrix2Granularity[0] = found->mGranularity;
    out.matrix2Granularity[1] = found->nGranularity;
    out.matrix2Granularity[2] = found->kGranularity;
    out.matrix2MaxDimension = properties.flexibleDimensionsMaxDimension;
}

void readMatrixUnits(const PhysicalDevice &device, const Enabled &enabled, Caps &out) {
    for (const Feature needed : {Feature::cooperativeMatrix, Feature::shaderFloat16, Feature::memoryModel, Feature::fullSubgroups})
        if (!enabled.has(needed)) return;
    newer::CooperativeMatrixProperties matrix{};
    matrix.sType = newer::cooperativeMatrixPropertiesType;
    readProperties(device, &matrix);
    if (!(matrix.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT)) return;
    readShapes(device, enabled, out);
    // SPIR-V 1.6
    if (enabled.version >= VK_API_VERSION_1_3 && enabled.has(Feature::maintenance4)) readMatrix2(device, enabled, out);
}

} // namespace

Caps readCaps(const PhysicalDevice &device, const Enabled &enabled) {
    Caps out = capsFromLimits(device.properties);
    out.pushDescriptors = enabled.extensions.has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    if (!device.getProperties2) return out;
    if (enabled.version >= VK_API_VERSION_1_1) {
        readSubgroups(device, enabled, out);
        readMatrixUnits(device, enabled, out);
    }
    if (enabled.version >= VK_API_VERSION_1_2 || enabled.extensions.has(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) {
        VkPhysicalDeviceFloatControlsProperties controls{};
        controls.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
        readProperties(device, &controls);
        out.floatControlsNan = controls.shaderSignedZeroInfNanPreserveFloat32 ? 1 : 0;
    }
    return out;
}

} // namespace vkattn
