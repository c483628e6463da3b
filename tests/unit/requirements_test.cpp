// What is asked before a device exists: extensions, and the feature chain, over devices and chains of the test's making.
#include "core/requirements.hpp"
#include "core/subgroups.hpp"
#include "support/fake_physical_device.hpp"

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

Names listed(uint32_t apiVersion, vkattn_need need = VKATTN_HELPFUL) {
    uint32_t count = 77;
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnDeviceExtensions(fakeGetInstanceProcAddr, instance, handle, apiVersion, need, &count, nullptr, &why), VKATTN_OK)
        << why.message;
    std::vector<const char *> names(count + 1, "untouched");
    uint32_t room = count + 1;
    EXPECT_EQ(vkattnDeviceExtensions(fakeGetInstanceProcAddr, instance, handle, apiVersion, need, &room, names.data(), &why), VKATTN_OK);
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
        return vkattnPatchDeviceFeatures(fakeGetInstanceProcAddr, instance, handle, apiVersion, extensions.data(),
                                         static_cast<uint32_t>(extensions.size()), &head, &room, &why);
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
        EXPECT_EQ(vkattnPhysicalDeviceCaps(fakeGetInstanceProcAddr, instance, handle, apiVersion, extensions.data(),
                                           static_cast<uint32_t>(extensions.size()), &head, &caps, nullptr),
                  VKATTN_OK);
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

// Another table than today's: required ones are listed where the device lacks them as well, and by core version.
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
    EXPECT_EQ(vkattnDeviceExtensions(fakeGetInstanceProcAddr, instance, handle, VK_API_VERSION_1_1, VKATTN_HELPFUL, &count, names, &why),
              VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(count, 3u);
    EXPECT_NE(std::string(why.message).find("room for 1 extensions, expected 3"), std::string::npos) << why.message;
    const auto refused = [&](PFN_vkGetInstanceProcAddr get, VkInstance i, VkPhysicalDevice d, vkattn_need need, uint32_t *c) {
        why = {};
        EXPECT_EQ(vkattnDeviceExtensions(get, i, d, 0, need, c, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(why.message[0], '\0');
    };
    refused(nullptr, instance, handle, VKATTN_HELPFUL, &count);
    refused(fakeGetInstanceProcAddr, nullptr, handle, VKATTN_HELPFUL, &count);
    refused(fakeGetInstanceProcAddr, instance, nullptr, VKATTN_HELPFUL, &count);
    refused(fakeGetInstanceProcAddr, instance, handle, VKATTN_HELPFUL, nullptr);
    refused(fakeGetInstanceProcAddr, instance, handle, static_cast<vkattn_need>(2), &count);
    refused([](VkInstance, const char *) -> PFN_vkVoidFunction { return nullptr; }, instance, handle, VKATTN_HELPFUL, &count);
    for (const auto &[vulkan, expected] : {std::pair{VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_ERROR_OUT_OF_HOST_MEMORY},
                                           {VK_ERROR_OUT_OF_DEVICE_MEMORY, VKATTN_ERROR_VULKAN},
                                           {VK_ERROR_INITIALIZATION_FAILED, VKATTN_ERROR_VULKAN}}) {
        fake.enumerating = vulkan;
        EXPECT_EQ(
            vkattnDeviceExtensions(fakeGetInstanceProcAddr, instance, handle, VK_API_VERSION_1_1, VKATTN_HELPFUL, &count, nullptr, &why),
            expected);
        EXPECT_EQ(why.vkResult, vulkan);
    }
}

TEST_F(Requirements, missingStructsAreLinkedAtTheEndFromTheRoom) {
    for (const bool others : {false, true}) {
        Chain chain;
        if (others) chain.link(chain.foreign);
        ASSERT_EQ(chain.patch(VK_API_VERSION_1_3), VKATTN_OK) << chain.why.message;
        EXPECT_EQ(chain.types(), others ? (Types{foreignType, partType}) : Types{partType}); // one struct for both bits
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

// A device of Vulkan 1.2 does not read VkPhysicalDeviceVulkan13Features, and the part may not stand beside it.
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
        EXPECT_EQ(patchFeatures(featureRows(), device, {nullptr, 0}, chain.head, &chain.room, bytes, &chain.why),
                  VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(chain.why.message).find("room"), std::string::npos) << chain.why.message;
        EXPECT_EQ(chain.types(), Types{foreignType});
        EXPECT_EQ(chain.room.bytes[0], 0xeeeeeeeeeeeeeeeeu);
    }
    Chain exact;
    EXPECT_EQ(patchFeatures(featureRows(), device, {nullptr, 0}, exact.head, &exact.room, sizeof(Part), nullptr), VKATTN_OK);
    EXPECT_EQ(exact.types(), Types{partType});
}

// Two calls on one chain, each of which links something: the second leaves alone what the first put into the room.
TEST_F(Requirements, aRoomMayBeUsedAgainForTheSameChain) {
    PhysicalDevice device;
    ASSERT_EQ(device.load(fakeGetInstanceProcAddr, instance, handle, VK_API_VERSION_1_3, nullptr), VKATTN_OK);
    // A second part: the same bits under another struct type, which the device answers by a function of its own.
    FeatureRow second = fullSubgroupsFeature;
    second.part = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    second.aggregate = VK_STRUCTURE_TYPE_MAX_ENUM;
    const FeatureRow rows[] = {fullSubgroupsFeature, second};
    device.getFeatures2 = [](VkPhysicalDevice, VkPhysicalDeviceFeatures2 *out) {
        static_cast<Part *>(out->pNext)->computeFullSubgroups = VK_TRUE;
    };
    Chain chain;
    ASSERT_EQ(patchFeatures({rows, 1}, device, {nullptr, 0}, chain.head, &chain.room, sizeof chain.room, nullptr), VKATTN_OK);
    const Part *first = chain.last();
    ASSERT_EQ(patchFeatures(rows, device, {nullptr, 0}, chain.head, &chain.room, sizeof chain.room, nullptr), VKATTN_OK);
    EXPECT_EQ(chain.types(), (Types{partType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES}));
    EXPECT_GE(reinterpret_cast<const char *>(chain.last()), reinterpret_cast<const char *>(first + 1));
    EXPECT_TRUE(first->computeFullSubgroups);
}

TEST_F(Requirements, patchCallsThatBreakTheRulesAreRefused) {
    Chain chain;
    vkattn_diagnostic why{};
    const auto refused = [&](VkInstance i, VkPhysicalDevice d, VkPhysicalDeviceFeatures2 *c, vkattn_feature_storage *room, uint32_t count,
                             const std::string &expected) {
        EXPECT_EQ(vkattnPatchDeviceFeatures(fakeGetInstanceProcAddr, i, d, 0, nullptr, count, c, room, &why),
                  VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused(nullptr, handle, &chain.head, &chain.room, 0, "NULL");
    refused(instance, nullptr, &chain.head, &chain.room, 0, "NULL");
    refused(instance, handle, nullptr, &chain.room, 0, "NULL");
    refused(instance, handle, &chain.head, nullptr, 0, "NULL");
    refused(instance, handle, &chain.head, &chain.room, 1, "NULL");
    chain.head.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    refused(instance, handle, &chain.head, &chain.room, 0, "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2");
    chain.head.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    chain.link(chain.foreign, chain.part);
    chain.part.pNext = &chain.foreign; // runs in a circle
    refused(instance, handle, &chain.head, &chain.room, 0, "point back");
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    EXPECT_EQ(vkattnPhysicalDeviceCaps(fakeGetInstanceProcAddr, instance, handle, 0, nullptr, 0, &chain.head, &caps, &why),
              VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnPhysicalDeviceCaps(fakeGetInstanceProcAddr, instance, handle, 0, nullptr, 0, nullptr, &caps, &why), VKATTN_OK);
}

// Valid usage of the flag and of the required size, over widths and tiles.
TEST(SubgroupStage, asksForWholeSubgroupsOfThePlannedWidth) {
    Caps caps = minimumCaps();
    caps.subgroupSize = 32;
    constexpr uint32_t full = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    const PipelineKey shuffles = {Stage::flashSubgroups, {64}}, plain = {Stage::flash, {64}}, odd = {Stage::flashPlainSubgroups, {48}};
    const SubgroupSizes one = {32, 32, 32, 64}, choice = {32, 8, 32, 64}, none = {32, 0, 0, 0};
    EXPECT_EQ(subgroupStage(shuffles, caps, choice).flags, 0u) << "the feature is not enabled";
    caps.fullSubgroups = 1;
    EXPECT_EQ(subgroupStage(plain, caps, choice).flags, 0u) << "no subgroup operations";
    EXPECT_EQ(subgroupStage(plain, caps, choice).requiredSize, 0u);
    EXPECT_EQ(subgroupStage(shuffles, caps, one).flags, full);
    EXPECT_EQ(subgroupStage(shuffles, caps, one).requiredSize, 0u) << "there is one width only";
    EXPECT_EQ(subgroupStage(shuffles, caps, choice).flags, full);
    EXPECT_EQ(subgroupStage(shuffles, caps, choice).requiredSize, 32u);
    EXPECT_EQ(subgroupStage(shuffles, caps, none).flags, full);
    EXPECT_EQ(subgroupStage(shuffles, caps, none).requiredSize, 0u);
    EXPECT_EQ(subgroupStage(odd, caps, choice).flags, 0u) << "48 lanes are not whole subgroups of 32";
    EXPECT_EQ(subgroupStage(odd, caps, choice).requiredSize, 32u);
    EXPECT_EQ(subgroupStage(shuffles, caps, {32, 8, 32, 1}).requiredSize, 0u) << "a workgroup may have one subgroup of a required size";
    EXPECT_EQ(subgroupStage(shuffles, caps, {32, 8, 16, 64}).requiredSize, 0u) << "outside what may be required";
    caps.subgroupSize = 16; // capsLimit: the plan is narrower than the device
    EXPECT_EQ(subgroupStage(odd, caps, one).flags, 0u) << "48 lanes are whole subgroups of 16, but the device runs 32";
    EXPECT_EQ(subgroupStage(odd, caps, choice).flags, full);
    EXPECT_EQ(subgroupStage(odd, caps, choice).requiredSize, 16u);
}
