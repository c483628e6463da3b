// The one warning where a device could do more than vkattn_host declares. The warning says what is
// lost and what to declare; without a loss there is no warning.
#include "core/device/read_caps.hpp"
#include "core/vulkan/undeclared.hpp"
#include "support/vulkan/fake_physical_device.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

class Undeclared : public testing::Test {
  protected:
    Undeclared() {
        fake = {};
        fake.subgroups = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, nullptr, 32, VK_SHADER_STAGE_COMPUTE_BIT, 0xff, VK_FALSE};
        fake.sizeControl = {
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, nullptr, 16, 32, 16, VK_SHADER_STAGE_COMPUTE_BIT};
        host_.structSize = sizeof host_;
        host_.apiVersion = VK_API_VERSION_1_3;
        host_.instance = reinterpret_cast<VkInstance>(uintptr_t{1});
        host_.physicalDevice = reinterpret_cast<VkPhysicalDevice>(uintptr_t{2});
        host_.getInstanceProcAddr = fakeGetInstanceProcAddr;
        chain_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    }
    // Declares what the library itself says is worth enabling.
    void declareAll() {
        declared_.resize(16);
        PhysicalDevice device = loaded();
        uint32_t count = 16;
        ASSERT_EQ(listExtensions(extensionRows(), device, VKATTN_HELPFUL, count, declared_.data(), nullptr), VKATTN_OK);
        declared_.resize(count);
        ASSERT_EQ(patchChain(featureRows(), device, {declared_.data(), count}, chain_, &room_, sizeof room_, nullptr), VKATTN_OK);
    }
    std::vector<std::string> warnings(const Caps *limit = nullptr) {
        host_.enabledExtensions = declared_.data();
        host_.enabledExtensionCount = static_cast<uint32_t>(declared_.size());
        host_.enabledFeatures = &chain_;
        const PhysicalDevice device = loaded();
        Caps caps = readCaps(device, {device.version, {host_.enabledExtensions, host_.enabledExtensionCount}, host_.enabledFeatures});
        if (limit) caps = weakerCaps(caps, *limit);
        std::vector<std::string> lines;
        const Log log{[](void *to, vkattn_log_level level, const char *message) {
                          EXPECT_EQ(level, VKATTN_LOG_WARNING);
                          static_cast<std::vector<std::string> *>(to)->emplace_back(message);
                      },
                      &lines};
        warnOfUndeclared(host_, device, caps, limit, log);
        return lines;
    }
    // One warning, which has these parts and lacks those.
    void expectWarning(const std::vector<const char *> &parts, const std::vector<const char *> &others, const Caps *limit = nullptr) {
        const std::vector<std::string> lines = warnings(limit);
        ASSERT_EQ(lines.size(), 1u);
        for (const char *part : parts) EXPECT_NE(lines[0].find(part), std::string::npos) << part << ": " << lines[0];
        for (const char *other : others) EXPECT_EQ(lines[0].find(other), std::string::npos) << other << ": " << lines[0];
    }
    void forget(const char *extension) {
        std::erase_if(declared_, [&](const char *each) { return std::strcmp(each, extension) == 0; });
    }

    vkattn_host host_{};
    std::vector<const char *> declared_;
    VkPhysicalDeviceFeatures2 chain_{};
    vkattn_feature_storage room_{};

  private:
    PhysicalDevice loaded() {
        PhysicalDevice device;
        EXPECT_EQ(device.load(fakeGetInstanceProcAddr, host_.instance, host_.physicalDevice, host_.apiVersion, nullptr), VKATTN_OK);
        return device;
    }
};

} // namespace

TEST_F(Undeclared, nothingIsSaidWhereNothingIsLost) {
    declareAll();
    EXPECT_EQ(warnings(), std::vector<std::string>{});
    fake.makeMatrixUnits();
    fake.addShape(16, 16, 16, newer::componentFloat16, newer::componentFloat32);
    fake.addShape(16, 16, 16, newer::componentBfloat16, newer::componentFloat32);
    declareAll();
    EXPECT_EQ(warnings(), std::vector<std::string>{});
    forget("VK_NV_cooperative_matrix2"); // AUTO would not take its kernel
    EXPECT_EQ(warnings(), std::vector<std::string>{});
    // A higher version that gives nothing.
    fake.instanceVersion = fake.apiVersion = VK_MAKE_API_VERSION(0, 1, 4, 0);
    EXPECT_EQ(warnings(), std::vector<std::string>{});
    host_.log = nullptr;
    warnOfUndeclared(host_, {}, minimumCaps(), nullptr, {}); // without a log no question is asked
}

TEST_F(Undeclared, aVersionThatIsLeftOut) {
    host_.apiVersion = 0;
    expectWarning({"instance and device offer Vulkan 1.3", "vkattn_host::apiVersion is 0, which is 1.0", "subgroup shuffles", "8.8 times"},
                  {"enabledExtensions with"});
    // An old loader or an old device allows extensions that depend on Vulkan 1.0.
    const char *const extensionsAlone = "Not declared: VK_KHR_push_descriptor, VK_KHR_shader_float_controls.";
    fake.instanceVersion = VK_API_VERSION_1_0;
    expectWarning({extensionsAlone}, {"shuffles", "apiVersion 1"});
    fake.instanceVersion = VK_API_VERSION_1_3, fake.apiVersion = VK_API_VERSION_1_0;
    expectWarning({extensionsAlone}, {"shuffles", "apiVersion 1"});
    fake.apiVersion = VK_API_VERSION_1_2;
    expectWarning({"offer Vulkan 1.2"}, {});
    const Caps weakest = minimumCaps(); // wanted
    EXPECT_EQ(warnings(&weakest), std::vector<std::string>{});
}

TEST_F(Undeclared, aVersionAboveTheInstances) {
    fake.instanceKnowsProperties2 = false;
    expectWarning({"vkattn_host::apiVersion says 1.3", "created with a lower VkApplicationInfo::apiVersion"}, {});
}

TEST_F(Undeclared, aVersionThatIsTooLow) {
    fake.extensions = {"VK_KHR_push_descriptor"}; // what others gave is part of 1.3
    host_.apiVersion = VK_API_VERSION_1_1;
    declareAll();
    expectWarning(
        {"whole subgroups", "guarantee of the NaN rules", "Not declared: apiVersion 1.3, subgroupSizeControl, computeFullSubgroups."},
        {"shuffles", "push descriptors"});
}

TEST_F(Undeclared, extensionsAndFeaturesByWhatTheyGive) {
    host_.apiVersion = VK_API_VERSION_1_1;
    declareAll();
    forget("VK_KHR_push_descriptor");
    expectWarning({"Lost: push descriptors (a descriptor pool is needed in their place). Not declared: VK_KHR_push_descriptor."},
                  {"apiVersion 1"});
    declareAll();
    forget("VK_KHR_shader_float_controls");
    expectWarning({"Lost: the guarantee of the NaN rules. Not declared: VK_KHR_shader_float_controls."}, {});
    declareAll();
    chain_.pNext = nullptr;
    expectWarning({"whole subgroups of the planned width, subgroup sizes that can be required",
                   "subgroupSizeControl, computeFullSubgroups.", "vkattnPatchDeviceFeatures"},
                  {"VK_EXT_subgroup_size_control", "shuffles"});
}

TEST_F(Undeclared, matrixUnits) {
    fake.makeMatrixUnits();
    fake.addShape(16, 16, 16, newer::componentFloat16, newer::componentFloat32);
    fake.addShape(16, 16, 16, newer::componentBfloat16, newer::componentFloat32);
    declareAll();
    vkattn_diagnostic why{};
    Caps caps{};
    ASSERT_EQ(physicalDeviceCaps(physicalDevice(fakeGetInstanceProcAddr, host_.instance, host_.physicalDevice, host_.apiVersion), declared_,
                                 &chain_, caps),
              VKATTN_OK);
    (void)vkattnKernelSupport(&caps, VKATTN_KERNEL_FLASH_COOPMAT, &why);
    const bool built = std::strstr(why.message, "this build") == nullptr;
    forget("VK_KHR_cooperative_matrix");
    if (!built) {
        EXPECT_EQ(warnings(), std::vector<std::string>{}) << "a kernel that this build lacks is not lost by what is declared";
        GTEST_SKIP() << why.message;
    }
    expectWarning({"matrix units for f16 (flash_coopmat), matrix units for bf16", "VK_KHR_cooperative_matrix"},
                  {"VK_NV_cooperative_matrix2", "shaderFloat16", "maintenance4"});
    declareAll();
    forget("VK_KHR_shader_bfloat16");
    expectWarning({"Lost: matrix units for bf16 (flash_coopmat). Not declared: VK_KHR_shader_bfloat16"}, {"f16 (flash_coopmat), "});
}
