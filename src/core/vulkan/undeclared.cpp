#include "core/vulkan/undeclared.hpp"

#include "core/device/read_caps.hpp"
#include "core/plan/kernel.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace vkattn {
namespace {

constexpr uint32_t mostNames = 32; // more than the rows of the tables

// Returns whether the kernel on matrix units can compute anything of this type.
bool multipliesMatrices(const Caps &caps, vkattn_dtype dtype) {
    vkattn_problem description{};
    description.structSize = sizeof description;
    for (vkattn_layout *layout : {&description.q, &description.k, &description.v, &description.out})
        *layout = {dtype, {1, 1, 64, 64}, {4096, 4096, 64, 1}, 0};
    description.kernel = VKATTN_KERNEL_FLASH_COOPMAT;
    Problem problem;
    Plan plan;
    return makeProblem(&description, problem, nullptr) == VKATTN_OK &&
           makePlan(problem, {caps, VKATTN_DEFAULT_MAX_WORKSPACE_BYTES, flashTuning(caps)}, plan, nullptr) == VKATTN_OK;
}

// Abilities that a device may lose. VK_NV_cooperative_matrix2 is no ability: AUTO does not take its
// kernel.
using Abilities = uint32_t; // 1 << index in the table
constexpr struct {
    const char *name;
    bool (*has)(const Caps &caps);
} abilities[] = {
    {"push descriptors (a descriptor pool is needed in their place)", [](const Caps &c) { return c.pushDescriptors != 0; }},
    {"subgroup shuffles (flash took 8.8 times as long without them on a software driver)",
     [](const Caps &c) { return c.subgroupShuffle != 0; }},
    {"whole subgroups of the planned width", [](const Caps &c) { return c.fullSubgroups != 0; }},
    {"subgroup sizes that can be required", [](const Caps &c) { return c.minSubgroupSize != 0; }},
    {"matrix units for f16 (flash_coopmat)", [](const Caps &c) { return multipliesMatrices(c, VKATTN_F16); }},
    {"matrix units for bf16 (flash_coopmat)", [](const Caps &c) { return multipliesMatrices(c, VKATTN_BF16); }},
    {"the guarantee of the NaN rules", [](const Caps &c) { return c.floatControlsNan != 0; }},
};
constexpr Abilities pushDescriptors = 1u << 0;
constexpr const char *shuffles = abilities[1].name;

Abilities abilitiesOf(const Caps &caps) {
    Abilities all = 0;
    for (size_t n = 0; n < std::size(abilities); ++n) all |= abilities[n].has(caps) ? 1u << n : 0;
    return all;
}

// A message that is put together from parts.
class Text {
  public:
    VKATTN_PRINTF(2, 3) void add(const char *format, ...) {
        va_list arguments;
        va_start(arguments, format);
        const int written = std::vsnprintf(text_ + size_, sizeof text_ - size_, format, arguments);
        va_end(arguments);
        size_ = std::min(size_ + static_cast<size_t>(std::max(written, 0)), sizeof text_ - 1);
    }
    [[nodiscard]] const char *text() const { return text_; }

  private:
    char text_[1500] = {};
    size_t size_ = 0;
};

// Enables everything that helps.
struct Everything {
    const PhysicalDevice &device;
    const char *names[mostNames] = {};
    uint32_t nameCount = mostNames;
    VkPhysicalDeviceFeatures2 features{};
    vkattn_feature_storage room{};

    explicit Everything(const PhysicalDevice &asked) : device(asked) {
        features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
        if (listExtensions(extensionRows(), device, VKATTN_HELPFUL, nameCount, names, nullptr) != VKATTN_OK) nameCount = 0;
        if (patchChain(featureRows(), device, {names, nameCount}, features, &room, sizeof room, nullptr) != VKATTN_OK)
            features.pNext = nullptr;
    }
    Everything(const Everything &) = delete;
    Everything &operator=(const Everything &) = delete;

    [[nodiscard]] Abilities can(const Caps *limit) const {
        const Caps caps = readCaps(device, {device.version, {names, nameCount}, &features});
        return abilitiesOf(limit ? weakerCaps(caps, *limit) : caps);
    }
    // Returns the abilities of the same device without one extension, or without one feature.
    [[nodiscard]] Abilities canWithout(uint32_t name, const Caps *limit) {
        const char *const left = std::exchange(names[name], "");
        const Abilities rest = can(limit);
        names[name] = left;
        return rest;
    }
    [[nodiscard]] Abilities canWithout(const FeatureRow &row, const Caps *limit) {
        auto *part = static_cast<VkBaseOutStructure *>(features.pNext);
        while (part && part->sType != row.part) part = part->pNext;
        if (!part) return can(limit);
        unsigned char *const bit = reinterpret_cast<unsigned char *>(part) + row.partBit;
        VkBool32 before;
        std::memcpy(&before, bit, sizeof before);
        std::memset(bit, 0, sizeof before);
        const Abilities rest = can(limit);
        std::memcpy(bit, &before, sizeof before);
        return rest;
    }
};

uint32_t instanceVersion(PFN_vkGetInstanceProcAddr get) {
    const auto enumerate = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(VK_NULL_HANDLE, "vkEnumerateInstanceVersion"));
    uint32_t version = VK_API_VERSION_1_0;
    return enumerate && enumerate(&version) == VK_SUCCESS ? version : VK_API_VERSION_1_0;
}

// Below Vulkan 1.1 the device must not be asked for its abilities above 1.1.
void warnOfOldInstance(const vkattn_host &host, uint32_t offered, const Log &log) {
    Text text;
    text.add("the device could do more than the host allows: instance and device offer Vulkan %u.%u, ", VK_API_VERSION_MAJOR(offered),
             VK_API_VERSION_MINOR(offered));
    if (host.apiVersion >= VK_API_VERSION_1_1)
        text.add("and vkattn_host::apiVersion says %u.%u, but the instance does not know the functions of 1.1: it was created with a lower "
                 "VkApplicationInfo::apiVersion.",
                 VK_API_VERSION_MAJOR(host.apiVersion), VK_API_VERSION_MINOR(host.apiVersion));
    else
        text.add("and vkattn_host::apiVersion is %s.", host.apiVersion ? "1.0" : "0, which is 1.0");
    text.add(
        " The host loses %s, matrix units and the guarantee of the NaN rules, as far as the device has them. Create the instance with that "
        "version and say so in vkattn_host::apiVersion; vkattnDeviceExtensions and vkattnPatchDeviceFeatures then say which extensions and "
        "features to enable and declare",
        shuffles);
    log.write(VKATTN_LOG_WARNING, text.text());
}

} // namespace

void warnOfUndeclared(const vkattn_host &host, const PhysicalDevice &device, const Caps &caps, const Caps *limit, const Log &log) {
    if (!log.callback) return;
    const uint32_t offered = std::min(instanceVersion(host.getInstanceProcAddr), device.properties.apiVersion);
    if (device.version < VK_API_VERSION_1_1 && offered >= VK_API_VERSION_1_1) {
        if (!limit || limit->subgroupShuffle) warnOfOldInstance(host, offered, log);
        return;
    }
    PhysicalDevice asked = device;
    asked.version = std::max(offered, device.version);
    const bool newer = Everything(asked).can(limit) & ~Everything(device).can(limit);
    if (!newer) asked.version = device.version;
    Everything everything(asked);
    const Enabled declared = {device.version, {host.enabledExtensions, host.enabledExtensionCount}, host.enabledFeatures};
    Abilities lost = everything.can(limit) & ~abilitiesOf(caps);
    // An extension that is declared without its functions has a warning of its own.
    if (declared.extensions.has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME)) lost &= ~pushDescriptors;
    if (!lost) return;

    Text text;
    const char *separator = "";
    const auto list = [&](const char *name) {
        text.add("%s%s", separator, name);
        separator = ", ";
    };
    text.add("the device could do more than vkattn_host declares. Lost: ");
    for (size_t n = 0; n < std::size(abilities); ++n)
        if (lost >> n & 1u) list(abilities[n].name);
    text.add(". Not declared: ");
    separator = "";
    if (newer) {
        text.add("apiVersion %u.%u", VK_API_VERSION_MAJOR(asked.version), VK_API_VERSION_MINOR(asked.version));
        separator = ", ";
    }
    for (uint32_t n = 0; n < everything.nameCount; ++n)
        if (!declared.extensions.has(everything.names[n]) && (lost & ~everything.canWithout(n, limit))) list(everything.names[n]);
    for (const FeatureRow &row : featureRows())
        if (!declared.has(row) && (lost & ~everything.canWithout(row, limit))) list(row.name);
    text.add(
        ". apiVersion, enabledExtensions and enabledFeatures must say how the instance and the device were created. Before vkCreateDevice, "
        "vkattnDeviceExtensions and vkattnPatchDeviceFeatures say which extensions and features to enable");
    log.write(VKATTN_LOG_WARNING, text.text());
}

} // namespace vkattn
