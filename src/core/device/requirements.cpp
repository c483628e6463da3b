#include "core/device/requirements.hpp"

#include "core/device/host_memory.hpp"
#include "core/device/vulkan_failure.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace vkattn {
namespace {

constexpr ExtensionRow extensionTable[] = {
    // Vulkan 1.4 has push descriptors in core, as a feature of their own to enable. The extension
    // stays listed there, which costs nothing.
    {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, VKATTN_HELPFUL, VK_API_VERSION_1_0, neverCore},
    // Float controls are properties; there is no feature to enable.
    {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VKATTN_HELPFUL, VK_API_VERSION_1_0, VK_API_VERSION_1_2},
    {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VKATTN_HELPFUL, VK_API_VERSION_1_1, VK_API_VERSION_1_3},
    // Matrix units: the shaders are SPIR-V 1.3 (Vulkan 1.1); those with VK_NV_cooperative_matrix2
    // are SPIR-V 1.6 (Vulkan 1.3).
    {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VKATTN_HELPFUL, VK_API_VERSION_1_1, VK_API_VERSION_1_2},
    {VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VKATTN_HELPFUL, VK_API_VERSION_1_1, VK_API_VERSION_1_2},
    {newer::cooperativeMatrixName, VKATTN_HELPFUL, VK_API_VERSION_1_1, neverCore},
    {newer::shaderBfloat16Name, VKATTN_HELPFUL, VK_API_VERSION_1_1, neverCore},
    {newer::cooperativeMatrix2Name, VKATTN_HELPFUL, VK_API_VERSION_1_3, neverCore},
};

#define VKATTN_FEATURE(bit, extension, core, Part, part, Aggregate, aggregate, since)                                                      \
    { #bit, extension, core, part, sizeof(Part), offsetof(Part, bit), aggregate, since, offsetof(Aggregate, bit) }
#define VKATTN_MEMORY_MODEL_FEATURE(bit, together)                                                                                         \
    {                                                                                                                                      \
#bit, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2,                                                               \
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, sizeof(VkPhysicalDeviceVulkanMemoryModelFeatures),             \
            offsetof(VkPhysicalDeviceVulkanMemoryModelFeatures, bit), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,               \
            VK_API_VERSION_1_2, offsetof(VkPhysicalDeviceVulkan12Features, bit),                                                           \
            offsetof(VkPhysicalDeviceVulkanMemoryModelFeatures, together)                                                                  \
    }
#define VKATTN_EXTENSION_FEATURE(bit, extension, Part, part) /* in no core version yet */                                                  \
    { #bit, extension, neverCore, part, sizeof(Part), offsetof(Part, bit), VK_STRUCTURE_TYPE_MAX_ENUM, neverCore, 0 }
#define VKATTN_MATRIX2_FEATURE(bit)                                                                                                        \
    VKATTN_EXTENSION_FEATURE(bit, newer::cooperativeMatrix2Name, newer::CooperativeMatrix2Features, newer::cooperativeMatrix2FeaturesType)
#define VKATTN_BFLOAT16_FEATURE(bit)                                                                                                       \
    VKATTN_EXTENSION_FEATURE(bit, newer::shaderBfloat16Name, newer::ShaderBfloat16Features, newer::shaderBfloat16FeaturesType)
constexpr FeatureRow featureTable[] = {
    VKATTN_FEATURE(subgroupSizeControl, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3,
                   VkPhysicalDeviceSubgroupSizeControlFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                   VkPhysicalDeviceVulkan13Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VK_API_VERSION_1_3),
    VKATTN_FEATURE(computeFullSubgroups, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3,
                   VkPhysicalDeviceSubgroupSizeControlFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                   VkPhysicalDeviceVulkan13Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VK_API_VERSION_1_3),
    VKATTN_FEATURE(shaderFloat16, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2, VkPhysicalDeviceShaderFloat16Int8Features,
                   VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceVulkan12Features,
                   VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VK_API_VERSION_1_2),
    // Both features or neither. Atomic operations, also those on halves of outputs, have device
    // scope. A device with the first feature and without the second allows device scope in no
    // shader (VUID-RuntimeSpirv-vulkanMemoryModel-06265).
    VKATTN_MEMORY_MODEL_FEATURE(vulkanMemoryModel, vulkanMemoryModelDeviceScope),
    VKATTN_MEMORY_MODEL_FEATURE(vulkanMemoryModelDeviceScope, vulkanMemoryModel),
    VKATTN_EXTENSION_FEATURE(cooperativeMatrix, newer::cooperativeMatrixName, newer::CooperativeMatrixFeatures,
                             newer::cooperativeMatrixFeaturesType),
    VKATTN_BFLOAT16_FEATURE(shaderBFloat16Type),
    VKATTN_BFLOAT16_FEATURE(shaderBFloat16CooperativeMatrix),
    // SPIR-V 1.6 states workgroup sizes as LocalSizeId, which needs this feature.
    VKATTN_FEATURE(maintenance4, VK_KHR_MAINTENANCE_4_EXTENSION_NAME, VK_API_VERSION_1_3, VkPhysicalDeviceMaintenance4Features,
                   VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, VkPhysicalDeviceVulkan13Features,
                   VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VK_API_VERSION_1_3),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixWorkgroupScope),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixFlexibleDimensions),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixReductions),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixConversions),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixPerElementOperations),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixTensorAddressing),
};
#undef VKATTN_BFLOAT16_FEATURE
#undef VKATTN_MATRIX2_FEATURE
#undef VKATTN_EXTENSION_FEATURE
#undef VKATTN_MEMORY_MODEL_FEATURE
#undef VKATTN_FEATURE
static_assert(std::size(featureTable) == static_cast<size_t>(Feature::count));

constexpr size_t rounded(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}
constexpr size_t largestRoom() {
    size_t sum = 0;
    for (size_t n = 0; n < std::size(featureTable); ++n) // the rows of one part follow each other
        if (n == 0 || featureTable[n].part != featureTable[n - 1].part) sum += rounded(featureTable[n].partBytes);
    return sum;
}
static_assert(largestRoom() <= sizeof(vkattn_feature_storage), "the caller's room must do for every struct of the table");

constexpr uint32_t mostStructs = 1024; // structs in a chain; a longer chain runs in a circle

bool bitAt(const void *from, size_t offset) {
    VkBool32 bit;
    std::memcpy(&bit, static_cast<const unsigned char *>(from) + offset, sizeof bit);
    return bit != VK_FALSE;
}

void setBitAt(void *to, size_t offset) {
    const VkBool32 bit = VK_TRUE;
    std::memcpy(static_cast<unsigned char *>(to) + offset, &bit, sizeof bit);
}

const VkBaseInStructure *findStruct(const VkPhysicalDeviceFeatures2 &chain, VkStructureType type) {
    const auto *each = static_cast<const VkBaseInStructure *>(chain.pNext);
    while (each && each->sType != type) each = each->pNext;
    return each;
}

bool usable(const FeatureRow &row, uint32_t version, const EnabledExtensions &extensions) {
    return version >= row.core || (row.extension && extensions.has(row.extension));
}

bool deviceHas(const PhysicalDevice &device, const FeatureRow &row) {
    alignas(8) unsigned char part[sizeof(vkattn_feature_storage)] = {};
    VkBaseOutStructure head{};
    head.sType = row.part;
    std::memcpy(part, &head, sizeof head);
    VkPhysicalDeviceFeatures2 chain{};
    chain.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    chain.pNext = part;
    device.getFeatures2(device.handle, &chain);
    return bitAt(part, row.partBit) && (row.together == 0 || bitAt(part, row.together));
}

// The place where the chain has the bit, or where the bit is to go.
enum class Place { nowhere, inChain, inRoom };

Place placeOf(const FeatureRow &row, const PhysicalDevice &device, const EnabledExtensions &extensions,
              const VkPhysicalDeviceFeatures2 &chain) {
    if (!usable(row, device.version, extensions)) return Place::nowhere;
    const bool aggregate = findStruct(chain, row.aggregate) != nullptr;
    // The device does not read an aggregate of a later version. The part beside the aggregate would
    // be a duplicate.
    if (aggregate && device.version < row.aggregateSince) return Place::nowhere;
    if (!deviceHas(device, row)) return Place::nowhere;
    return aggregate || findStruct(chain, row.part) ? Place::inChain : Place::inRoom;
}

// Returns the bytes of the room that structs of an earlier call take. Those structs are in the
// chain.
size_t roomTaken(std::span<const FeatureRow> rows, const VkPhysicalDeviceFeatures2 &chain, const void *room, size_t roomBytes) {
    const auto begin = reinterpret_cast<uintptr_t>(room);
    size_t taken = 0;
    for (const FeatureRow &row : rows) {
        const auto at = reinterpret_cast<uintptr_t>(findStruct(chain, row.part));
        if (at >= begin && at - begin < roomBytes) taken = std::max(taken, at - begin + rounded(row.partBytes));
    }
    return std::min(taken, roomBytes);
}

} // namespace

std::span<const ExtensionRow> extensionRows() {
    return extensionTable;
}

std::span<const FeatureRow> featureRows() {
    return featureTable;
}

const FeatureRow &featureRow(Feature feature) {
    return featureTable[static_cast<uint32_t>(feature)];
}

bool EnabledExtensions::has(const char *name) const {
    return std::any_of(names, names + count, [&](const char *enabled) { return enabled && std::strcmp(enabled, name) == 0; });
}

bool Enabled::has(const FeatureRow &row) const {
    if (!features || !usable(row, version, extensions)) return false;
    const void *part = findStruct(*features, row.part), *aggregate = findStruct(*features, row.aggregate);
    return (part && bitAt(part, row.partBit)) || (aggregate && version >= row.aggregateSince && bitAt(aggregate, row.aggregateBit));
}

vkattn_result PhysicalDevice::load(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice device, uint32_t apiVersion,
                                   vkattn_diagnostic *why) {
    handle = device;
    // Some loaders know the core names below 1.1 too. Using the functions, and extensions that
    // depend on them, is not allowed there.
    const auto either = [&](const char *core, const char *extension) {
        const PFN_vkVoidFunction function = apiVersion >= VK_API_VERSION_1_1 ? get(instance, core) : nullptr;
        return function ? function : get(instance, extension);
    };
    const auto getProperties = reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(get(instance, "vkGetPhysicalDeviceProperties"));
    if (!getProperties) return fail(why, invalid, "getInstanceProcAddr does not know vkGetPhysicalDeviceProperties");
    getProperties(device, &properties);
    version = std::min(apiVersion ? apiVersion : VK_API_VERSION_1_0, properties.apiVersion);
    // A loader knows the functions of the version that the instance was created with. An instance
    // that lacks this function is one of Vulkan 1.0, whatever apiVersion says.
    if (version >= VK_API_VERSION_1_1 && !get(instance, "vkGetPhysicalDeviceProperties2")) version = VK_API_VERSION_1_0;
    enumerateExtensions = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(get(instance, "vkEnumerateDeviceExtensionProperties"));
    getProperties2 =
        reinterpret_cast<PFN_vkGetPhysicalDeviceProperties2>(either("vkGetPhysicalDeviceProperties2", "vkGetPhysicalDeviceProperties2KHR"));
    getFeatures2 =
        reinterpret_cast<PFN_vkGetPhysicalDeviceFeatures2>(either("vkGetPhysicalDeviceFeatures2", "vkGetPhysicalDeviceFeatures2KHR"));
    getMatrixShapes = reinterpret_cast<newer::GetCooperativeMatrixShapes>(get(instance, newer::getCooperativeMatrixShapesName));
    getFlexibleDimensions = reinterpret_cast<newer::GetFlexibleDimensions>(get(instance, newer::getFlexibleDimensionsName));
    return VKATTN_OK;
}

vkattn_result listExtensions(std::span<const ExtensionRow> rows, const PhysicalDevice &device, vkattn_need need, uint32_t &count,
                             const char **names, vkattn_diagnostic *why) {
    VkExtensionProperties *listed = nullptr;
    uint32_t listedCount = 0;
    // Every one of these extensions depends on VK_KHR_get_physical_device_properties2, an extension
    // of the instance, or on Vulkan 1.1.
    if (need == VKATTN_HELPFUL && device.getProperties2) {
        if (!device.enumerateExtensions)
            return fail(why, invalid, "getInstanceProcAddr does not know vkEnumerateDeviceExtensionProperties");
        VkResult r = device.enumerateExtensions(device.handle, nullptr, &listedCount, nullptr);
        if (r == VK_SUCCESS && listedCount) {
            listed = static_cast<VkExtensionProperties *>(
                hostAllocate(nullptr, listedCount * sizeof(VkExtensionProperties), alignof(VkExtensionProperties)));
            if (!listed) return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a list of %u extensions", listedCount);
            r = device.enumerateExtensions(device.handle, nullptr, &listedCount, listed);
        }
        if (r < 0) {
            hostFree(nullptr, listed);
            return vulkanFailure(why, r, "vkEnumerateDeviceExtensionProperties");
        }
    }
    const uint32_t room = count;
    count = 0;
    for (const ExtensionRow &row : rows) {
        if (row.need != need || device.version >= row.core) continue;
        const bool there =
            std::any_of(listed, listed + listedCount, [&](const auto &e) { return !std::strcmp(e.extensionName, row.name); });
        if (need == VKATTN_HELPFUL && (!there || device.version < row.since)) continue;
        if (names && count < room) names[count] = row.name;
        ++count;
    }
    hostFree(nullptr, listed);
    if (names && count > room)
        return fail(why, invalid, "names has room for %u extensions, expected %u; ask for the count with names NULL", room, count);
    return VKATTN_OK;
}

vkattn_result checkChain(const VkPhysicalDeviceFeatures2 *chain, const char *name, vkattn_diagnostic *why) {
    if (chain->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)
        return fail(why, invalid, "%s->sType is %d, expected VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2", name,
                    static_cast<int>(chain->sType));
    uint32_t length = 0;
    for (const auto *each = static_cast<const VkBaseInStructure *>(chain->pNext); each; each = each->pNext)
        if (++length > mostStructs)
            return fail(why, invalid, "the pNext chain of %s has more than %u structs; does one of them point back?", name, mostStructs);
    return VKATTN_OK;
}

vkattn_result patchChain(std::span<const FeatureRow> rows, const PhysicalDevice &device, const EnabledExtensions &extensions,
                         VkPhysicalDeviceFeatures2 &chain, void *room, size_t roomBytes, vkattn_diagnostic *why) {
    if (const auto r = checkChain(&chain, "chain", why)) return r;
    if (!device.getFeatures2) return VKATTN_OK; // Vulkan 1.0 has no chain of features

    // Missing structs are counted first: where the room is too small, nothing has changed.
    const size_t taken = roomTaken(rows, chain, room, roomBytes);
    size_t needed = 0;
    for (size_t n = 0; n < rows.size(); ++n) {
        if (placeOf(rows[n], device, extensions, chain) != Place::inRoom) continue;
        const auto earlier = rows.first(n);
        const bool shared = std::any_of(earlier.begin(), earlier.end(), [&](const FeatureRow &row) {
            return row.part == rows[n].part && placeOf(row, device, extensions, chain) == Place::inRoom;
        });
        if (!shared) needed += rounded(rows[n].partBytes);
    }
    if (needed > roomBytes - taken)
        return fail(why, invalid, "the room for feature structs has %zu of %zu bytes left, expected %zu; start with a fresh room and chain",
                    roomBytes - taken, roomBytes, needed);

    auto *next = static_cast<unsigned char *>(room) + taken;
    for (const FeatureRow &row : rows) {
        const Place place = placeOf(row, device, extensions, chain);
        if (place == Place::nowhere) continue;
        if (place == Place::inRoom) {
            auto *last = reinterpret_cast<VkBaseOutStructure *>(&chain);
            while (last->pNext) last = last->pNext;
            std::memset(next, 0, row.partBytes);
            last->pNext = reinterpret_cast<VkBaseOutStructure *>(next);
            last->pNext->sType = row.part;
            next += rounded(row.partBytes);
        }
        // A host that has chained both structs, against the rules, gets the bit in both: the driver
        // may read either.
        auto *each = static_cast<VkBaseOutStructure *>(chain.pNext);
        for (; each; each = each->pNext)
            if (each->sType == row.part || each->sType == row.aggregate)
                setBitAt(each, each->sType == row.part ? row.partBit : row.aggregateBit);
    }
    return VKATTN_OK;
}

} // namespace vkattn
