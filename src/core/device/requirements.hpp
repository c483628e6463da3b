// The extensions and features that are worth enabling at vkCreateDevice, as two tables. A kernel
// that needs another one adds a row. No row is needed to run: a missing extension or feature
// changes speed or a guarantee, never whether a problem can be computed.
#pragma once

#include "core/device/newer_vulkan.hpp"

#include <cstddef>
#include <span>

namespace vkattn {

constexpr uint32_t neverCore = ~0u;

struct ExtensionRow {
    const char *name;
    vkattn_need need;
    uint32_t since; // the Vulkan version that the extension is written against
    uint32_t core;  // the version that has the extension built in and no longer lists it
};

// A feature bit lives in a struct of its own (the part) and, from some version on, in an aggregate
// too. A chain holds the part or the aggregate, never both (VUID-VkDeviceCreateInfo-pNext-06532 and
// similar rules).
struct FeatureRow {
    const char *name;
    const char *extension; // the extension that brings the part below `core`; NULL: none
    uint32_t core;
    VkStructureType part;
    size_t partBytes, partBit; // size of the struct, and offset of the bit in the struct
    VkStructureType aggregate; // VK_STRUCTURE_TYPE_MAX_ENUM: none
    uint32_t aggregateSince;   // the version from which devices know the aggregate
    size_t aggregateBit;
    // Offset of another bit of the part. The bit is set only where the device has both. 0: no other
    // bit.
    size_t together = 0;
};

[[nodiscard]] std::span<const ExtensionRow> extensionRows();
[[nodiscard]] std::span<const FeatureRow> featureRows();

// The rows of the table, in its order.
enum class Feature : uint32_t {
    subgroupSizeControl,
    fullSubgroups,
    shaderFloat16,
    memoryModel,
    memoryModelDeviceScope,
    cooperativeMatrix,
    bfloat16,
    bfloat16Matrix,
    maintenance4,
    matrix2WorkgroupScope,
    matrix2Flexible,
    matrix2Reductions,
    matrix2Conversions,
    matrix2PerElement,
    matrix2TensorLoads,
    count
};
[[nodiscard]] const FeatureRow &featureRow(Feature feature);

// The extensions that a device has been, or will be, created with.
struct EnabledExtensions {
    const char *const *names;
    uint32_t count;
    [[nodiscard]] bool has(const char *name) const;
};

// The extensions and features that were enabled, as the host declares them: Vulkan cannot be asked.
struct Enabled {
    uint32_t version; // usableVersion
    EnabledExtensions extensions;
    const VkPhysicalDeviceFeatures2 *features; // NULL: none
    [[nodiscard]] bool has(const FeatureRow &row) const;
    [[nodiscard]] bool has(Feature feature) const { return has(featureRow(feature)); }
};

// The instance-level functions that core needs, found through the host's vkGetInstanceProcAddr.
struct PhysicalDevice {
    VkPhysicalDevice handle = VK_NULL_HANDLE;
    // The version that may be used: the version of the instance bounds that of its devices.
    uint32_t version = VK_API_VERSION_1_0;
    VkPhysicalDeviceProperties properties{};
    // These two are NULL on Vulkan 1.0 without the instance extension.
    PFN_vkGetPhysicalDeviceProperties2 getProperties2 = nullptr;
    PFN_vkGetPhysicalDeviceFeatures2 getFeatures2 = nullptr;
    PFN_vkEnumerateDeviceExtensionProperties enumerateExtensions = nullptr;
    // These two are NULL where the instance does not know the extension.
    newer::GetCooperativeMatrixShapes getMatrixShapes = nullptr;
    newer::GetFlexibleDimensions getFlexibleDimensions = nullptr;

    [[nodiscard]] vkattn_result load(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice device, uint32_t apiVersion,
                                     vkattn_diagnostic *why);
};

// Implements vkattnDeviceExtensions over a table.
[[nodiscard]] vkattn_result listExtensions(std::span<const ExtensionRow> rows, const PhysicalDevice &device, vkattn_need need,
                                           uint32_t &count, const char **names, vkattn_diagnostic *why);

// Checks that the chain begins with VkPhysicalDeviceFeatures2 and ends. `name` is the name of the
// argument, for the message.
[[nodiscard]] vkattn_result checkChain(const VkPhysicalDeviceFeatures2 *chain, const char *name, vkattn_diagnostic *why);

// Implements vkattnPatchDeviceFeatures over a table. On an error nothing is changed.
[[nodiscard]] vkattn_result patchChain(std::span<const FeatureRow> rows, const PhysicalDevice &device, const EnabledExtensions &extensions,
                                       VkPhysicalDeviceFeatures2 &chain, void *room, size_t roomBytes, vkattn_diagnostic *why);

} // namespace vkattn
