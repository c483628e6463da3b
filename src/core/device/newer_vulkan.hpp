// Names and layouts of extensions that are younger than the oldest vulkan_core.h that core compiles
// with. The names are our own; layouts and values are the registry's. Where the header has an
// extension too, the compiler compares both.
#pragma once

#include "vkattn/vkattn.h"

namespace vkattn::newer {

// Returns the structure type by the number of the extension in the registry.
constexpr VkStructureType structureType(int extension, int offset) {
    return static_cast<VkStructureType>(1000000000 + (extension - 1) * 1000 + offset);
}

// VK_KHR_cooperative_matrix
constexpr const char *cooperativeMatrixName = "VK_KHR_cooperative_matrix";
constexpr VkStructureType cooperativeMatrixFeaturesType = structureType(507, 0), cooperativeMatrixShapeType = structureType(507, 1),
                          cooperativeMatrixPropertiesType = structureType(507, 2);
// VkComponentTypeKHR
constexpr int32_t componentFloat16 = 0, componentFloat32 = 1, componentBfloat16 = 1000141000;
// VkScopeKHR
constexpr int32_t scopeSubgroup = 3;

struct CooperativeMatrixFeatures {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};
struct CooperativeMatrixProperties {
    VkStructureType sType;
    void *pNext;
    VkShaderStageFlags cooperativeMatrixSupportedStages;
};
struct CooperativeMatrixShape { // VkCooperativeMatrixPropertiesKHR
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    int32_t a, b, c, result;
    VkBool32 saturating;
    int32_t scope;
};
using GetCooperativeMatrixShapes = VkResult(VKAPI_PTR *)(VkPhysicalDevice, uint32_t *, CooperativeMatrixShape *);
constexpr const char *getCooperativeMatrixShapesName = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR";

// VK_NV_cooperative_matrix2
constexpr const char *cooperativeMatrix2Name = "VK_NV_cooperative_matrix2";
constexpr VkStructureType cooperativeMatrix2FeaturesType = structureType(594, 0), flexibleDimensionsType = structureType(594, 1),
                          cooperativeMatrix2PropertiesType = structureType(594, 2);

struct CooperativeMatrix2Features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrixWorkgroupScope, cooperativeMatrixFlexibleDimensions, cooperativeMatrixReductions,
        cooperativeMatrixConversions, cooperativeMatrixPerElementOperations, cooperativeMatrixTensorAddressing, cooperativeMatrixBlockLoads;
};
struct CooperativeMatrix2Properties {
    VkStructureType sType;
    void *pNext;
    uint32_t workgroupScopeMaxWorkgroupSize, flexibleDimensionsMaxDimension, workgroupScopeReservedSharedMemory;
};
struct FlexibleDimensions { // VkCooperativeMatrixFlexibleDimensionsPropertiesNV
    VkStructureType sType;
    void *pNext;
    uint32_t mGranularity, nGranularity, kGranularity;
    int32_t a, b, c, result;
    VkBool32 saturating;
    int32_t scope;
    uint32_t workgroupInvocations;
};
using GetFlexibleDimensions = VkResult(VKAPI_PTR *)(VkPhysicalDevice, uint32_t *, FlexibleDimensions *);
constexpr const char *getFlexibleDimensionsName = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";

// VK_KHR_shader_bfloat16
constexpr const char *shaderBfloat16Name = "VK_KHR_shader_bfloat16";
constexpr VkStructureType shaderBfloat16FeaturesType = structureType(142, 0);

struct ShaderBfloat16Features {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;
};

#ifdef VK_KHR_cooperative_matrix
static_assert(cooperativeMatrixFeaturesType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR &&
              cooperativeMatrixShapeType == VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR &&
              cooperativeMatrixPropertiesType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
static_assert(componentFloat16 == VK_COMPONENT_TYPE_FLOAT16_KHR && componentFloat32 == VK_COMPONENT_TYPE_FLOAT32_KHR &&
              scopeSubgroup == VK_SCOPE_SUBGROUP_KHR);
static_assert(sizeof(CooperativeMatrixFeatures) == sizeof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR) &&
              sizeof(CooperativeMatrixProperties) == sizeof(VkPhysicalDeviceCooperativeMatrixPropertiesKHR) &&
              sizeof(CooperativeMatrixShape) == sizeof(VkCooperativeMatrixPropertiesKHR));
#endif
#ifdef VK_NV_cooperative_matrix2
static_assert(cooperativeMatrix2FeaturesType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV &&
              flexibleDimensionsType == VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV &&
              cooperativeMatrix2PropertiesType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
static_assert(sizeof(CooperativeMatrix2Features) == sizeof(VkPhysicalDeviceCooperativeMatrix2FeaturesNV) &&
              sizeof(CooperativeMatrix2Properties) == sizeof(VkPhysicalDeviceCooperativeMatrix2PropertiesNV) &&
              sizeof(FlexibleDimensions) == sizeof(VkCooperativeMatrixFlexibleDimensionsPropertiesNV));
#endif
#ifdef VK_KHR_shader_bfloat16
static_assert(shaderBfloat16FeaturesType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR &&
              componentBfloat16 == VK_COMPONENT_TYPE_BFLOAT16_KHR &&
              sizeof(ShaderBfloat16Features) == sizeof(VkPhysicalDeviceShaderBfloat16FeaturesKHR));
#endif

} // namespace vkattn::newer
