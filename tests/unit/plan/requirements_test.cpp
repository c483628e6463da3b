// The questions before a device exists: extensions and the feature chain, over devices and chains
// of the test's making.
#include "core/device/requirements.hpp"
#include "core/plan/operands.hpp"
#include "core/shaders/subgroups.hpp"
#include "support/vulkan/fake_physical_device.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

const auto instance = reinterpret_cast<VkInstance>(uintptr_t{16});
const auto handle = reinterpret_cast<VkPhysicalDevice>(uintptr_t{32});
constexpr const char *sizeControl = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
using Part = VkPhysicalDeviceSubgroupSizeControlFeatures;
using Aggregate = VkPhysicalDeviceVulkan13Features;

using Names = std::vector<std::string>;

vkattn_physical_device fakeDevice(uint32_t apiVersion) {
    return physicalDevice(fakeGetInstanceProcAddr, instance, handle, apiVersion);
}

Names listed(uint32_t apiVersion, vkattn_need need = VKATTN_HELPFUL) {
    uint32_t count = 77;
    vkattn_diagnostic why{};
    EXPECT_EQ(deviceExtensions(fakeDevice(apiVersion), need, count, {}, &why), VKATTN_OK) << why.message;
    std::vector<const char *> names(count + 1, "untouched");
    uint32_t room = 0;
    EXPECT_EQ(deviceExtensions(fakeDevice(apiVersion), need, room, names, &why), VKATTN_OK);
    EXPECT_EQ(room, count);
    EXPECT_STREQ(names[count], "untouched");
    return {names.begin(), names.begin() + count};
}

// A chain of structs that the test owns.
struct Chain {
    VkPhysicalDeviceFeatures2 head{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, nullptr, {}};
    Part part{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, nullptr, 0, 0};
    Aggregate aggregate{};
    VkPhysicalDeviceVulkanMemoryModelFeatures foreign{};
    vkattn_feature_storage room{};
    vkattn_diagnostic why{};
    Chain() {
        aggregate.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
        foreign.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
        foreign.vulkanMemoryModel = VK_TRUE;
        std::memset(&room, 0xee, sizeof room); // nobody clears it first
    }
    Chain(const Chain &) = delete;
    Chain &operator=(const Chain &) = delete;
    template <class... Structs> Chain &link(Structs &...structs) {
        VkBaseOutStructure *last = reinterpret_cast<VkBaseOutStructure *>(&head);
        ((last->pNext = reinterpret_cast<VkBaseOutStructure *>(&structs), last = last->pNext), ...);
        last->pNext = nullptr;
        return *this;
    }
    vkattn_result patch(uint32_t apiVersion, std::vector<const char *> extensions = {}) {
        return patchFeatures(fakeDevice(apiVersion), extensions, head, room, &why);
    }
    [[nodiscard]] std::vector<VkStructureType> types() const {
        std::vector<VkStructureType> list;
        for (const auto *each = static_cast<const VkBaseInStructure *>(head.pNext); each; each = each->pNext) list.push_back(each->sType);
        return list;
    }
    [[nodiscard]] const Part *last() const {
        const auto *each = static_cast<const VkBaseInStructure *>(head.pNext);
        while (each && each->pNext) each = each->pNext;
        return reinterpret_cast<const Part *>(each);
    }
    [[nodiscard]] bool inRoom(const void *at) const { return at >= &room && at < &room + 1; }
    [[nodiscard]] uint32_t fullSubgroups(uint32_t apiVersion, std::vector<const char *> extensions = {}) const {
        vkattn_caps caps{};
        caps.structSize = sizeof caps;
        EXPECT_EQ(physicalDeviceCaps(fakeDevice(apiVersion), extensions, &head, caps), VKATTN_OK);
        return caps.fullSubgroups;
    }
};

constexpr auto partType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
constexpr auto aggregateType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
constexpr auto foreignType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
using Types = std::vector<VkStructureType>;

class Requirements : public testing::Test {
  protected:
    void SetUp() override { fake = {}; }
};

} // namespace

TEST_F(Requirements, extensionsAreThoseThatTheDeviceHasAndThatCoreHasNot) {
    EXPECT_EQ(listed(VK_API_VERSION_1_1), (Names{"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls", sizeControl}));
    EXPECT_EQ(listed(VK_API_VERSION_1_2), (Names{"VK_KHR_push_descriptor", sizeControl}));
    EXPECT_EQ(listed(VK_API_VERSION_1_3), (Names{"VK_KHR_push_descriptor"}));
    // Both bound what may be used: the device, and the instance (0 is 1.0).
    fake.apiVersion = VK_API_VERSION_1_1;
    EXPECT_EQ(listed(VK_API_VERSION_1_3), (Names{"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls", sizeControl}));
    EXPECT_EQ(listed(0), (Names{"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls"}));
    fake.extensions = {"VK_KHR_shader_float_controls"};
    EXPECT_EQ(listed(VK_API_VERSION_1_1), (Names{"VK_KHR_shader_float_controls"}));
    fake.extensions.clear();
    EXPECT_EQ(listed(VK_API_VERSION_1_1), Names{});
    for (const uint32_t version : {0u, VK_API_VERSION_1_1, VK_API_VERSION_1_3}) EXPECT_EQ(listed(version, VKATTN_REQUIRED), Names{});
}

TEST_F(Requirements, extensionsNeedTheirInstanceExtensionBelowVulkan11) {
    fake.instanceKnowsProperties2 = false;
    EXPECT_EQ(listed(0), Names{});
    EXPECT_EQ(listed(VK_API_VERSION_1_0), Names{});
}

// Another table than today's: required ones are listed where the device lacks them as well, and by
// core version.
TEST_F(Requirements, requiredExtensionsAreListedWhereTheDeviceLacksThem) {
    const ExtensionRow rows[] = {{"VK_TEST_absent", VKATTN_REQUIRED, VK_API_VERSION_1_0, VK_API_VERSION_1_2},
                                 {"VK_TEST_absent_too", VKATTN_HELPFUL, VK_API_VERSION_1_0, neverCore}};
    PhysicalDevice device;
    ASSERT_EQ(device.load(fakeGetInstanceProcAddr, instance, handle, VK_API_VERSION_1_1, nullptr), VKATTN_OK);
    const char *name = nullptr;
    uint32_t count = 1;
    EXPECT_EQ(listExtensions(rows, device, VKATTN_REQUIRED, count, &name, nullptr), VKATTN_OK);
    EXPECT_EQ(count, 1u);
    EXPECT_STREQ(name, "VK_TEST_absent");
    EXPECT_EQ(listExtensions(rows, device, VKATTN_HELPFUL, count, &name, nullptr), VKATTN_OK);
    EXPECT_EQ(count, 0u);
    device.version = VK_API_VERSION_1_2;
    EXPECT_EQ(listExtensions(rows, device, VKATTN_REQUIRED, count = 1, &name, nullptr), VKATTN_OK);
    EXPECT_EQ(count, 0u);
}

TEST_F(Requirements, extensionCallsThatBreakTheRulesAreRefused) {
    vkattn_diagnostic why{};
    uint32_t count = 1;
    const char *names[1] = {};
    EXPECT_EQ(deviceExtensions(fakeDevice(VK_API_VERSION_1_1), VKATTN_HELPFUL, count, names, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(count, 3u);
    EXPECT_NE(std::string(why.message).find("room for 1 extensions, expected 3"), std::string::npos) << why.message;
    const auto refused = [&](PFN_vkGetInstanceProcAddr get, VkInstance i, VkPhysicalDevice d, vkattn_need need, uint32_t *c) {
        why = {};
        const vkattn_physical_device named = physicalDevice(get, i, d, 0);
        EXPECT_EQ(vkattnDeviceExtensions(&named, need, c, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(why.message[0], '\0');
    };
    refused(nullptr, instance, handle, VKATTN_HELPFUL, &count);
    refused(fakeGetInstanceProcAddr, nullptr, handle, VKATTN_HELPFUL, &count);
    refused(fakeGetInstanceProcAddr, instance, nullptr, VKATTN_HELPFUL, &count);
    refused(fakeGetInstanceProcAddr, instance, handle, VKATTN_HELPFUL, nullptr);
    refused(fakeGetInstanceProcAddr, instance, handle, static_cast<vkattn_need>(2), &count);
    refused([](VkInstance, const char *) -> PFN_vkVoidFunction { return nullptr; }, instance, handle, VKATTN_HELPFUL, &count);
    for (const auto &[vulkan, expected] : {std::pair{VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_ERROR_OUT_OF_HOST_MEMORY},
                                           {VK_ERROR_OUT_OF_DEVICE_MEMORY, VKATTN_ERROR_OUT_OF_DEVICE_MEMORY},
                                           {VK_ERROR_INITIALIZATION_FAILED, VKATTN_ERROR_VULKAN}}) {
        fake.enumerating = vulkan;
        EXPECT_EQ(deviceExtensions(fakeDevice(VK_API_VERSION_1_1), VKATTN_HELPFUL, count, {}, &why), expected);
        EXPECT_EQ(why.vkResult, vulkan);
    }
}

TEST_F(Requirements, missingStructsAreLinkedAtTheEndFromTheRoom) {
    for (const bool others : {false, true}) {
        Chain chain;
        if (others) chain.link(chain.foreign);
        ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK) << chain.why.message;
        // One struct for both bits.
        EXPECT_EQ(chain.types(), others ? (Types{foreignType, partType}) : Types{partType});
        ASSERT_TRUE(chain.inRoom(chain.last()));
        EXPECT_TRUE(chain.last()->subgroupSizeControl && chain.last()->computeFullSubgroups);
        EXPECT_EQ(chain.foreign.vulkanMemoryModel, VkBool32{VK_TRUE});
        EXPECT_EQ(chain.fullSubgroups(VK_API_VERSION_1_3), 1u);
        // Once more: nothing is linked twice, and what lies in the room stays.
        ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK) << chain.why.message;
        EXPECT_EQ(chain.types().size(), others ? 2u : 1u);
    }
}

TEST_F(Requirements, belowTheCoreVersionTheExtensionDecides) {
    Chain without;
    ASSERT_EQ(without.patch(VK_API_VERSION_1_2), VKATTN_OK);
    EXPECT_EQ(without.types(), Types{});
    Chain with;
    ASSERT_EQ(with.patch(VK_API_VERSION_1_2, {"VK_KHR_swapchain", nullptr, sizeControl}), VKATTN_OK);
    EXPECT_EQ(with.types(), Types{partType});
    EXPECT_EQ(with.fullSubgroups(VK_API_VERSION_1_2, {sizeControl}), 1u);
    EXPECT_EQ(with.fullSubgroups(VK_API_VERSION_1_2), 0u) << "a feature of an extension that was not enabled";
}

TEST_F(Requirements, structsOfTheChainAreUsed) {
    for (const bool foreignFirst : {false, true}) {
        Chain chain;
        foreignFirst ? chain.link(chain.foreign, chain.part) : chain.link(chain.part, chain.foreign);
        const Types before = chain.types();
        ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK);
        EXPECT_EQ(chain.types(), before);
        EXPECT_TRUE(chain.part.subgroupSizeControl && chain.part.computeFullSubgroups);
    }
    for (const bool foreignFirst : {false, true}) {
        Chain chain;
        foreignFirst ? chain.link(chain.foreign, chain.aggregate) : chain.link(chain.aggregate, chain.foreign);
        const Types before = chain.types();
        chain.aggregate.maintenance4 = VK_TRUE;
        ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK);
        EXPECT_EQ(chain.types(), before) << "the part beside its aggregate is a duplicate";
        EXPECT_TRUE(chain.aggregate.subgroupSizeControl && chain.aggregate.computeFullSubgroups && chain.aggregate.maintenance4);
        EXPECT_FALSE(chain.aggregate.robustImageAccess || chain.aggregate.privateData || chain.aggregate.synchronization2);
        EXPECT_EQ(chain.fullSubgroups(VK_API_VERSION_1_3), 1u);
    }
    for (const bool partFirst : {false, true}) { // against the rules, and not ours to undo
        Chain chain;
        partFirst ? chain.link(chain.part, chain.aggregate) : chain.link(chain.aggregate, chain.part);
        ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK);
        EXPECT_EQ(chain.types().size(), 2u);
        EXPECT_TRUE(chain.part.computeFullSubgroups && chain.aggregate.computeFullSubgroups);
    }
}

// A device of Vulkan 1.2 does not read VkPhysicalDeviceVulkan13Features, and the part may not stand
// beside it.
TEST_F(Requirements, anAggregateOfALaterVersionIsLeftAlone) {
    fake.apiVersion = VK_API_VERSION_1_2;
    Chain chain;
    chain.link(chain.aggregate);
    ASSERT_EQ(chain.patch(VK_API_VERSION_1_3, {sizeControl}), VKATTN_OK);
    EXPECT_EQ(chain.types(), Types{aggregateType});
    EXPECT_FALSE(chain.aggregate.subgroupSizeControl || chain.aggregate.computeFullSubgroups);
    chain.aggregate.computeFullSubgroups = VK_TRUE;
    EXPECT_EQ(chain.fullSubgroups(VK_API_VERSION_1_3, {sizeControl}), 0u);
}

TEST_F(Requirements, bitsAreSetWhereTheDeviceHasThemAndNeverCleared) {
    fake.computeFullSubgroups = false;
    Chain chain;
    chain.link(chain.part);
    chain.part.computeFullSubgroups = VK_TRUE; // the host's own mistake, and its own to find
    ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK);
    EXPECT_TRUE(chain.part.subgroupSizeControl && chain.part.computeFullSubgroups);
    Chain half;
    ASSERT_EQ(half.patch(VK_API_VERSION_1_3), VKATTN_OK);
    ASSERT_TRUE(half.inRoom(half.last()));
    EXPECT_TRUE(half.last()->subgroupSizeControl);
    EXPECT_FALSE(half.last()->computeFullSubgroups);
    EXPECT_EQ(half.fullSubgroups(VK_API_VERSION_1_3), 0u);
    fake.subgroupSizeControl = false;
    Chain none;
    ASSERT_EQ(none.patch(VK_API_VERSION_1_3), VKATTN_OK);
    EXPECT_EQ(none.types(), Types{}) << "nothing to set, nothing to link";
    EXPECT_GT(fake.featureQueries, 0);
}

TEST_F(Requirements, withoutTheInstanceExtensionNothingIsPatched) {
    fake.instanceKnowsProperties2 = false;
    fake.apiVersion = VK_API_VERSION_1_0;
    Chain chain;
    EXPECT_EQ(chain.patch(0, {sizeControl}), VKATTN_OK);
    EXPECT_EQ(chain.types(), Types{});
}

TEST_F(Requirements, aRoomThatIsTooSmallIsAnErrorAndChangesNothing) {
    PhysicalDevice device;
    ASSERT_EQ(device.load(fakeGetInstanceProcAddr, instance, handle, VK_API_VERSION_1_3, nullptr), VKATTN_OK);
    for (const size_t bytes : {size_t{0}, size_t{8}, sizeof(Part) - 8}) {
        Chain chain;
        chain.link(chain.foreign);
        EXPECT_EQ(patchChain(featureRows(), device, {nullptr, 0}, chain.head, &chain.room, bytes, &chain.why),
                  VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(chain.why.message).find("room"), std::string::npos) << chain.why.message;
        EXPECT_EQ(chain.types(), Types{foreignType});
        EXPECT_EQ(chain.room.bytes[0], 0xeeeeeeeeeeeeeeeeu);
    }
    Chain exact;
    EXPECT_EQ(patchChain(featureRows(), device, {nullptr, 0}, exact.head, &exact.room, sizeof(Part), nullptr), VKATTN_OK);
    EXPECT_EQ(exact.types(), Types{partType});
}

// Two calls on one chain, each of which links something: the second leaves alone what the first put
// into the room.
TEST_F(Requirements, aRoomMayBeUsedAgainForTheSameChain) {
    PhysicalDevice device;
    ASSERT_EQ(device.load(fakeGetInstanceProcAddr, instance, handle, VK_API_VERSION_1_3, nullptr), VKATTN_OK);
    // A second part: the same bits under another struct type, which the device answers by a
    // function of its own.
    FeatureRow second = featureRow(Feature::fullSubgroups);
    second.part = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    second.aggregate = VK_STRUCTURE_TYPE_MAX_ENUM;
    const FeatureRow rows[] = {featureRow(Feature::fullSubgroups), second};
    device.getFeatures2 = [](VkPhysicalDevice, VkPhysicalDeviceFeatures2 *out) {
        static_cast<Part *>(out->pNext)->computeFullSubgroups = VK_TRUE;
    };
    Chain chain;
    ASSERT_EQ(patchChain({rows, 1}, device, {nullptr, 0}, chain.head, &chain.room, sizeof chain.room, nullptr), VKATTN_OK);
    const Part *first = chain.last();
    ASSERT_EQ(patchChain(rows, device, {nullptr, 0}, chain.head, &chain.room, sizeof chain.room, nullptr), VKATTN_OK);
    EXPECT_EQ(chain.types(), (Types{partType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES}));
    EXPECT_GE(reinterpret_cast<const char *>(chain.last()), reinterpret_cast<const char *>(first + 1));
    EXPECT_TRUE(first->computeFullSubgroups);
}

TEST_F(Requirements, patchCallsThatBreakTheRulesAreRefused) {
    Chain chain;
    vkattn_diagnostic why{};
    const auto refused = [&](VkInstance i, VkPhysicalDevice d, VkPhysicalDeviceFeatures2 *c, vkattn_feature_storage *room, uint32_t count,
                             const std::string &expected) {
        const vkattn_physical_device named = physicalDevice(fakeGetInstanceProcAddr, i, d, 0);
        EXPECT_EQ(vkattnPatchDeviceFeatures(&named, nullptr, count, c, room, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused(nullptr, handle, &chain.head, &chain.room, 0, "device->instance is NULL");
    refused(instance, nullptr, &chain.head, &chain.room, 0, "device->physicalDevice is NULL");
    refused(instance, handle, nullptr, &chain.room, 0, "chain is NULL");
    refused(instance, handle, &chain.head, nullptr, 0, "room is NULL");
    refused(instance, handle, &chain.head, &chain.room, 1, "extensions, with an extensionCount above 0, is NULL");
    chain.head.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    refused(instance, handle, &chain.head, &chain.room, 0, "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2");
    chain.head.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    chain.link(chain.foreign, chain.part);
    chain.part.pNext = &chain.foreign; // runs in a circle
    refused(instance, handle, &chain.head, &chain.room, 0, "point back");
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    EXPECT_EQ(physicalDeviceCaps(fakeDevice(0), {}, &chain.head, caps, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(physicalDeviceCaps(fakeDevice(0), {}, nullptr, caps, &why), VKATTN_OK);
}

namespace {

constexpr const char *allExtensions[] = {"VK_KHR_cooperative_matrix",  "VK_NV_cooperative_matrix2",  "VK_KHR_shader_bfloat16",
                                         "VK_KHR_shader_float16_int8", "VK_KHR_vulkan_memory_model", sizeControl};

std::vector<const char *> allBut(const char *without) {
    std::vector<const char *> names(std::begin(allExtensions), std::end(allExtensions));
    std::erase(names, without);
    return names;
}

// Caps of a device that is created with what vkattn asks for.
vkattn_caps capsOf(const Chain &chain, uint32_t apiVersion, const std::vector<const char *> &extensions) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    EXPECT_EQ(physicalDeviceCaps(fakeDevice(apiVersion), extensions, &chain.head, caps), VKATTN_OK);
    vkattn_diagnostic why{};
    EXPECT_EQ(checkCaps(caps, "caps", &why), VKATTN_OK) << why.message;
    return caps;
}
vkattn_caps patchedCaps(uint32_t apiVersion, const std::vector<const char *> &extensions) {
    Chain chain;
    EXPECT_EQ(chain.patch(apiVersion, extensions), VKATTN_OK) << chain.why.message;
    return capsOf(chain, apiVersion, extensions);
}

std::string shapesOf(const vkattn_caps &caps) {
    std::string text;
    for (uint32_t n = 0; n < caps.matrixShapeCount; ++n) {
        const vkattn_matrix_shape &s = caps.matrixShapes[n];
        text += std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + (s.inputs == VKATTN_F16 ? "h " : "b ");
    }
    return text;
}

class MatrixUnits : public Requirements {
  protected:
    void SetUp() override {
        fake = {};
        fake.makeMatrixUnits();
        fake.addShape(16, 16, 16, newer::componentFloat16, newer::componentFloat32);
        // Sums too narrow.
        fake.addShape(16, 16, 16, newer::componentFloat16, newer::componentFloat16);
        fake.addShape(16, 16, 16, newer::componentFloat16, newer::componentFloat32); // once more
        // The most subgroups of a workgroup.
        fake.addShape(16, 8, 16, newer::componentFloat16, newer::componentFloat32, 2);
        fake.addShape(16, 16, 32, 3, 5); // integers
        fake.addShape(16, 8, 8, newer::componentBfloat16, newer::componentFloat32);
        fake.addShape(8, 0, 8, newer::componentFloat16, newer::componentFloat32); // nonsense
        fake.addShape(8, 8, 8, newer::componentFloat16, newer::componentFloat32);
        fake.addFlexible(32, 32, 32, newer::componentFloat16, newer::componentFloat32, 2);
        fake.addFlexible(16, 16, 8, newer::componentFloat16, newer::componentFloat32, newer::scopeSubgroup);
        fake.addFlexible(8, 8, 8, newer::componentFloat16, newer::componentFloat16, newer::scopeSubgroup);
    }
};

constexpr uint32_t allMatrix2 = 63;

} // namespace

TEST_F(MatrixUnits, extensionsAreListedFromTheVersionThatTheirShadersNeed) {
    const auto has = [](uint32_t version, const char *name) {
        const Names names = listed(version);
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const char *name : {"VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16"}) {
        EXPECT_FALSE(has(VK_API_VERSION_1_0, name)) << name;
        EXPECT_TRUE(has(VK_API_VERSION_1_1, name) && has(VK_API_VERSION_1_2, name) && has(VK_API_VERSION_1_3, name)) << name;
    }
    EXPECT_FALSE(has(VK_API_VERSION_1_2, "VK_NV_cooperative_matrix2"));
    EXPECT_TRUE(has(VK_API_VERSION_1_3, "VK_NV_cooperative_matrix2"));
    for (const char *name : {"VK_KHR_shader_float16_int8", "VK_KHR_vulkan_memory_model"}) {
        EXPECT_TRUE(has(VK_API_VERSION_1_1, name)) << name;
        EXPECT_FALSE(has(VK_API_VERSION_1_0, name) || has(VK_API_VERSION_1_2, name)) << name;
    }
}

TEST_F(MatrixUnits, partsAreLinkedOrTheAggregateTakesTheirBits) {
    Chain parts;
    ASSERT_EQ(parts.patch(VK_API_VERSION_1_3, allBut(sizeControl)), VKATTN_OK) << parts.why.message;
    const Types expected = {partType,
                            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                            foreignType,
                            newer::cooperativeMatrixFeaturesType,
                            newer::shaderBfloat16FeaturesType,
                            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
                            newer::cooperativeMatrix2FeaturesType};
    EXPECT_EQ(parts.types(), expected);
    const auto *last = reinterpret_cast<const newer::CooperativeMatrix2Features *>(parts.last());
    EXPECT_TRUE(last->cooperativeMatrixReductions && last->cooperativeMatrixTensorAddressing && last->cooperativeMatrixWorkgroupScope);
    EXPECT_FALSE(last->cooperativeMatrixBlockLoads) << "nothing uses it";

    Chain chain;
    VkPhysicalDeviceVulkan12Features core12{};
    core12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    chain.link(core12, chain.aggregate);
    ASSERT_EQ(chain.patch(VK_API_VERSION_1_3, allBut(sizeControl)), VKATTN_OK) << chain.why.message;
    EXPECT_EQ(chain.types(),
              (Types{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, aggregateType, newer::cooperativeMatrixFeaturesType,
                     newer::shaderBfloat16FeaturesType, newer::cooperativeMatrix2FeaturesType}));
    EXPECT_TRUE(core12.shaderFloat16 && core12.vulkanMemoryModel);
    EXPECT_TRUE(core12.vulkanMemoryModelDeviceScope && chain.aggregate.maintenance4);
    EXPECT_FALSE(core12.vulkanMemoryModelAvailabilityVisibilityChains || core12.shaderInt8);
    EXPECT_EQ(shapesOf(capsOf(chain, VK_API_VERSION_1_3, allBut(sizeControl))), "16x16x16h 16x8x8b 8x8x8h ");
}

TEST_F(MatrixUnits, capsHaveTheShapesThatKernelsCanUse) {
    const vkattn_caps caps = patchedCaps(VK_API_VERSION_1_3, allBut(nullptr));
    EXPECT_EQ(shapesOf(caps), "16x16x16h 16x8x8b 8x8x8h ");
    EXPECT_EQ(caps.matrix2, allMatrix2);
    EXPECT_TRUE(caps.matrix2Granularity[0] == 16 && caps.matrix2Granularity[1] == 16 && caps.matrix2Granularity[2] == 8);
    EXPECT_EQ(caps.matrix2MaxDimension, 256u);
    EXPECT_EQ(caps.minSubgroupSize, 32u);
    EXPECT_EQ(caps.maxSubgroupSize, 64u);
    EXPECT_EQ(caps.maxWorkgroupSubgroups, 16u);
    EXPECT_EQ(caps.wrongKernels | caps.slowKernels, 0u);
    // Vulkan 1.1 with everything as extensions; those of SPIR-V 1.6 stay out.
    const vkattn_caps old = patchedCaps(VK_API_VERSION_1_1, allBut(nullptr));
    EXPECT_EQ(shapesOf(old), shapesOf(caps));
    EXPECT_EQ(old.matrix2, 0u);
    EXPECT_EQ(old.matrix2MaxDimension, 0u);
}

TEST_F(MatrixUnits, needEveryFeature) {
    // Below their core versions extensions bring the features.
    for (const char *without : {"VK_KHR_cooperative_matrix", "VK_KHR_shader_float16_int8", "VK_KHR_vulkan_memory_model", sizeControl}) {
        const vkattn_caps caps = patchedCaps(VK_API_VERSION_1_1, allBut(without));
        EXPECT_EQ(caps.matrixShapeCount, 0u) << without;
        EXPECT_EQ(caps.minSubgroupSize, without == sizeControl ? 0u : 32u);
    }
    EXPECT_EQ(shapesOf(patchedCaps(VK_API_VERSION_1_3, allBut("VK_KHR_shader_bfloat16"))), "16x16x16h 8x8x8h ");
    EXPECT_EQ(patchedCaps(VK_API_VERSION_1_3, allBut("VK_NV_cooperative_matrix2")).matrix2, 0u);
    const FakePhysicalDevice whole = fake;
    for (const VkStructureType type :
         {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
          newer::cooperativeMatrixFeaturesType}) {
        fake = whole;
        fake.features[type][0] = 0;
        const vkattn_caps caps = patchedCaps(VK_API_VERSION_1_3, allBut(nullptr));
        EXPECT_EQ(caps.matrixShapeCount | caps.matrix2 | caps.matrix2MaxDimension, 0u) << type;
    }
    // Without device scope the memory model would forbid the atomic operations of every kernel.
    fake = whole;
    fake.features[foreignType] = {1, 0, 1};
    Chain scoped;
    ASSERT_EQ(scoped.patch(VK_API_VERSION_1_3, allBut(nullptr)), VKATTN_OK);
    const Types types = scoped.types();
    EXPECT_EQ(std::find(types.begin(), types.end(), foreignType), types.end());
    EXPECT_EQ(capsOf(scoped, VK_API_VERSION_1_3, allBut(nullptr)).matrixShapeCount, 0u);
    for (const size_t bit : {size_t{0}, size_t{2}}) {
        fake = whole;
        fake.features[newer::shaderBfloat16FeaturesType][bit] = 0;
        EXPECT_EQ(shapesOf(patchedCaps(VK_API_VERSION_1_3, allBut(nullptr))), "16x16x16h 8x8x8h ");
    }
    fake = whole;
    fake.features[VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES] = {0};
    EXPECT_EQ(patchedCaps(VK_API_VERSION_1_3, allBut(nullptr)).matrix2, 0u);
    EXPECT_EQ(patchedCaps(VK_API_VERSION_1_3, allBut(nullptr)).matrixShapeCount, 3u);
    fake = whole;
    fake.computeFullSubgroups = false;
    EXPECT_EQ(patchedCaps(VK_API_VERSION_1_3, allBut(nullptr)).matrixShapeCount, 0u);
    fake = whole;
    fake.matrixStages = VK_SHADER_STAGE_FRAGMENT_BIT;
    EXPECT_EQ(patchedCaps(VK_API_VERSION_1_3, allBut(nullptr)).matrixShapeCount, 0u);
    fake = whole;
    Chain unpatched; // the host enabled nothing
    EXPECT_EQ(capsOf(unpatched, VK_API_VERSION_1_3, allBut(nullptr)).matrixShapeCount, 0u);
    fake.sizeControl.requiredSubgroupSizeStages = VK_SHADER_STAGE_FRAGMENT_BIT;
    EXPECT_EQ(patchedCaps(VK_API_VERSION_1_3, allBut(nullptr)).minSubgroupSize, 0u);
}

TEST_F(MatrixUnits, everyBitOfTheSecondExtensionIsItsOwn) {
    constexpr uint32_t bitOf[] = {VKATTN_MATRIX2_WORKGROUP_SCOPE, VKATTN_MATRIX2_FLEXIBLE,    VKATTN_MATRIX2_REDUCTIONS,
                                  VKATTN_MATRIX2_CONVERSIONS,     VKATTN_MATRIX2_PER_ELEMENT, VKATTN_MATRIX2_TENSOR_LOADS};
    for (size_t n = 0; n < std::size(bitOf); ++n) {
        std::vector<VkBool32> &bits = fake.features[newer::cooperativeMatrix2FeaturesType];
        bits.assign(7, 1);
        bits[n] = 0;
        const vkattn_caps caps = patchedCaps(VK_API_VERSION_1_3, allBut(nullptr));
        EXPECT_EQ(caps.matrix2, allMatrix2 & ~bitOf[n]);
        EXPECT_EQ(caps.matrix2MaxDimension, bitOf[n] == VKATTN_MATRIX2_FLEXIBLE ? 0u : 256u);
    }
}

TEST_F(MatrixUnits, theFirstTwelveShapesAreKept) {
    for (uint32_t n = 1; n <= 200; ++n) fake.addShape(8 * n, 16, 16, newer::componentFloat16, newer::componentFloat32);
    const vkattn_caps caps = patchedCaps(VK_API_VERSION_1_3, allBut(nullptr));
    EXPECT_EQ(caps.matrixShapeCount, uint32_t{VKATTN_MAX_MATRIX_SHAPES});
    EXPECT_EQ(caps.matrixShapes[3].m, 8u);
}

TEST(Caps, theWeakerOfBothHasTheShapesOfBoth) {
    Caps a = minimumCaps();
    a.fullSubgroups = 1;
    a.subgroupSize = 32;
    a.minSubgroupSize = 8, a.maxSubgroupSize = 32, a.maxWorkgroupSubgroups = 64;
    a.matrixShapeCount = 2;
    a.matrixShapes[0] = {16, 16, 16, VKATTN_F16};
    a.matrixShapes[1] = {16, 16, 16, VKATTN_BF16};
    a.matrix2 = VKATTN_MATRIX2_FLEXIBLE | VKATTN_MATRIX2_REDUCTIONS;
    a.matrix2Granularity[0] = a.matrix2Granularity[1] = a.matrix2Granularity[2] = 8;
    a.matrix2MaxDimension = 256;
    a.wrongKernels = 1u << VKATTN_KERNEL_FLASH_COOPMAT;
    Caps b = a;
    b.minSubgroupSize = 16, b.maxSubgroupSize = 64, b.maxWorkgroupSubgroups = 8;
    b.matrixShapes[0] = {8, 8, 8, VKATTN_F16};
    b.matrix2 = VKATTN_MATRIX2_FLEXIBLE | VKATTN_MATRIX2_CONVERSIONS;
    b.matrix2Granularity[1] = 16;
    b.matrix2MaxDimension = 128;
    b.wrongKernels = 0;
    b.slowKernels = 1u << VKATTN_KERNEL_FLASH_COOPMAT2;
    for (const bool swapped : {false, true}) {
        const Caps weak = swapped ? weakerCaps(b, a) : weakerCaps(a, b);
        EXPECT_EQ(shapesOf(weak), "16x16x16b ");
        EXPECT_EQ(weak.matrix2, uint32_t{VKATTN_MATRIX2_FLEXIBLE});
        EXPECT_TRUE(weak.matrix2Granularity[0] == 8 && weak.matrix2Granularity[1] == 16 && weak.matrix2MaxDimension == 128);
        EXPECT_TRUE(weak.minSubgroupSize == 16 && weak.maxSubgroupSize == 32 && weak.maxWorkgroupSubgroups == 8);
        EXPECT_EQ(weak.wrongKernels, 1u << VKATTN_KERNEL_FLASH_COOPMAT);
        EXPECT_EQ(weak.slowKernels, 1u << VKATTN_KERNEL_FLASH_COOPMAT2);
        EXPECT_EQ(checkCaps(weak, "caps", nullptr), VKATTN_OK);
    }
    b.minSubgroupSize = b.maxSubgroupSize = 64;
    b.fullSubgroups = 0;
    Caps weak = weakerCaps(a, b);
    EXPECT_EQ(weak.minSubgroupSize | weak.maxSubgroupSize | weak.maxWorkgroupSubgroups, 0u) << "no size suits both";
    EXPECT_EQ(weak.matrixShapeCount | weak.matrix2 | weak.matrix2MaxDimension, 0u) << "matrix units need whole subgroups";
    EXPECT_EQ(weak.matrixShapes[0].m, 0u);
    b = minimumCaps();
    weak = weakerCaps(a, b);
    EXPECT_EQ(weak.matrixShapeCount | weak.matrix2 | weak.matrix2MaxDimension | weak.minSubgroupSize, 0u);
}

TEST(Caps, nonsenseIsRefusedWithItsReason) {
    const auto refused = [](const char *expected, auto change) {
        Caps caps = minimumCaps();
        caps.subgroupSize = 32;
        caps.fullSubgroups = 1;
        caps.matrixShapeCount = 1;
        caps.matrixShapes[0] = {16, 16, 16, VKATTN_F16};
        vkattn_diagnostic why{};
        EXPECT_EQ(checkCaps(caps, "caps", &why), VKATTN_OK) << why.message;
        change(caps);
        EXPECT_EQ(checkCaps(caps, "caps", &why), VKATTN_ERROR_INVALID_ARGUMENT) << expected;
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused("minSubgroupSize is 24", [](Caps &c) { c.minSubgroupSize = 24, c.maxSubgroupSize = 32; });
    refused("minSubgroupSize is 64", [](Caps &c) { c.minSubgroupSize = 64, c.maxSubgroupSize = 32; });
    refused("minSubgroupSize is 0", [](Caps &c) { c.maxSubgroupSize = 32; });
    refused("maxWorkgroupSubgroups is 0", [](Caps &c) { c.minSubgroupSize = c.maxSubgroupSize = 32; });
    refused("matrixShapeCount is 13", [](Caps &c) { c.matrixShapeCount = 13; });
    refused("matrixShapes[0] is 16x0x16", [](Caps &c) { c.matrixShapes[0].n = 0; });
    refused("matrixShapes[0].inputs is 0", [](Caps &c) { c.matrixShapes[0].inputs = VKATTN_F32; });
    refused("matrix2Granularity is 8x0x8", [](Caps &c) { c.matrix2Granularity[0] = c.matrix2Granularity[2] = 8; });
    refused("matrix2MaxDimension 256", [](Caps &c) { c.matrix2MaxDimension = 256; });
    refused("wrongKernels is 0x2", [](Caps &c) { c.wrongKernels = 1u << VKATTN_KERNEL_STAGED; });
    refused("slowKernels 0x1,", [](Caps &c) { c.slowKernels = 1; });
    refused("slowKernels 0x40,", [](Caps &c) { c.slowKernels = 1u << 6; });
}

// Valid usage of the flag and of the required size, over widths and tiles.
TEST(SubgroupStage, asksForWholeSubgroupsOfThePlannedWidth) {
    Caps caps = minimumCaps();
    caps.subgroupSize = 32;
    constexpr uint32_t full = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    const PipelineKey shuffles = {Module::flashSubgroups, {64}}, plain = {Module::flash, {64}}, odd = {Module::flashPlainSubgroups, {48}};
    const auto sizes = [&](uint32_t smallest, uint32_t largest, uint32_t subgroups) -> const Caps & {
        caps.minSubgroupSize = smallest, caps.maxSubgroupSize = largest, caps.maxWorkgroupSubgroups = subgroups;
        return caps;
    };
    EXPECT_EQ(subgroupStage(shuffles, sizes(8, 32, 64), 32).flags, 0u) << "the feature is not enabled";
    caps.fullSubgroups = 1;
    EXPECT_EQ(subgroupStage(plain, caps, 32).flags, 0u) << "no subgroup operations";
    EXPECT_EQ(subgroupStage(plain, caps, 32).requiredSize, 0u);
    EXPECT_EQ(subgroupStage(shuffles, sizes(32, 32, 64), 32).flags, full);
    EXPECT_EQ(subgroupStage(shuffles, caps, 32).requiredSize, 0u) << "there is one width only";
    EXPECT_EQ(subgroupStage(shuffles, sizes(8, 32, 64), 32).flags, full);
    EXPECT_EQ(subgroupStage(shuffles, caps, 32).requiredSize, 32u);
    EXPECT_EQ(subgroupStage(odd, caps, 32).flags, 0u) << "48 lanes are not whole subgroups of 32";
    EXPECT_EQ(subgroupStage(odd, caps, 32).requiredSize, 32u);
    EXPECT_EQ(subgroupStage(shuffles, sizes(0, 0, 0), 32).flags, full);
    EXPECT_EQ(subgroupStage(shuffles, caps, 32).requiredSize, 0u);
    EXPECT_EQ(subgroupStage(shuffles, sizes(8, 32, 1), 32).requiredSize, 0u) << "a workgroup may have one subgroup of a required size";
    EXPECT_EQ(subgroupStage(shuffles, sizes(8, 16, 64), 32).requiredSize, 0u) << "outside what may be required";
    caps.subgroupSize = 16; // capsLimit: the plan is narrower than the device
    EXPECT_EQ(subgroupStage(odd, sizes(32, 32, 64), 32).flags, 0u) << "48 lanes are whole subgroups of 16, but the device runs 32";
    EXPECT_EQ(subgroupStage(odd, sizes(8, 32, 64), 32).flags, full);
    EXPECT_EQ(subgroupStage(odd, caps, 32).requiredSize, 16u);
}

TEST(SubgroupStage, matrixKernelsSayHowWideTheirSubgroupsAre) {
    Caps caps = minimumCaps();
    caps.subgroupSize = 64, caps.fullSubgroups = 1;
    caps.minSubgroupSize = 32, caps.maxSubgroupSize = 64, caps.maxWorkgroupSubgroups = 8;
    constexpr uint32_t full = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    for (const Module stage : {Module::flashCoopmatF16, Module::flashCoopmatBf16, Module::flashCoopmat2F16, Module::flashCoopmat2Bf16}) {
        EXPECT_EQ(subgroupStage(pipelineKey(stage, 128, {}, {32}), caps, 64).requiredSize, 32u);
        EXPECT_EQ(subgroupStage(pipelineKey(stage, 128, {}, {64}), caps, 64).requiredSize, 64u);
        EXPECT_EQ(subgroupStage(pipelineKey(stage, 128, {}, {32}), caps, 64).flags, full);
    }
    const PipelineKey key = pipelineKey(Module::flashCoopmatF16, 128, {}, {32});
    caps.subgroupSize = caps.maxSubgroupSize = 32;
    EXPECT_EQ(subgroupStage(key, caps, 32).requiredSize, 32u) << "one width only, and stated";
    caps.minSubgroupSize = caps.maxSubgroupSize = caps.maxWorkgroupSubgroups = 0;
    EXPECT_EQ(subgroupStage(key, caps, 32).requiredSize, 0u);
    EXPECT_EQ(subgroupStage(key, caps, 32).flags, full);
}
