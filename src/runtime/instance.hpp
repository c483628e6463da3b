// A Vulkan instance that the runtime owns, and the devices that it finds.
#pragma once

#include "runtime/vulkan.hpp"
#include "vkattn/runtime.hpp"

#include <memory>

namespace vkattn {

// A chain for vkCreateDevice, with room for the structs that vkattn links in. The struct is not
// copied: the chain points into the room.
struct DeviceFeatures {
    VkPhysicalDeviceFeatures2 chain{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, nullptr, {}};
    vkattn_feature_storage room{};
    DeviceFeatures() = default;
    DeviceFeatures(const DeviceFeatures &) = delete;
    DeviceFeatures &operator=(const DeviceFeatures &) = delete;
};

class Instance {
  public:
    // Returns NULL with the reason where there is no loader, no driver that makes an instance, or
    // no device.
    [[nodiscard]] static std::unique_ptr<Instance> create(const RuntimeOptions &options, std::string &why);
    ~Instance();
    Instance(const Instance &) = delete;
    Instance &operator=(const Instance &) = delete;

    struct Found {
        VkPhysicalDevice handle;
        DeviceInfo info;
    };
    // The devices, ranked; there is at least one.
    [[nodiscard]] const std::vector<Found> &devices() const { return found_; }
    [[nodiscard]] const InstanceTable &table() const { return table_; }
    [[nodiscard]] VkInstance handle() const { return instance_; }
    [[nodiscard]] uint32_t apiVersion() const { return apiVersion_; }
    // Returns the device in the form that vkattn.h takes.
    [[nodiscard]] vkattn_physical_device named(VkPhysicalDevice device) const;
    // Returns the device extensions to enable: those that vkattn can use and the device lists, and
    // those that Vulkan wants to see enabled.
    [[nodiscard]] std::vector<const char *> deviceExtensions(VkPhysicalDevice device) const;
    // Patches the chain. Returns false where there is nothing to pass: not every Vulkan 1.0 device
    // knows such a chain.
    [[nodiscard]] bool deviceFeatures(VkPhysicalDevice device, const std::vector<const char *> &extensions, DeviceFeatures &features) const;

  private:
    Instance() = default;
    [[nodiscard]] bool makeInstance(const RuntimeOptions &options, std::string &why);
    [[nodiscard]] bool findDevices(std::string &why);
    [[nodiscard]] DeviceInfo describe(VkPhysicalDevice device) const;
    [[nodiscard]] std::vector<VkExtensionProperties> listedExtensions(VkPhysicalDevice device) const;

    VkInstance instance_ = VK_NULL_HANDLE;
    uint32_t apiVersion_ = VK_API_VERSION_1_0;
    InstanceTable table_;
    std::function<void(const char *)> log_;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    std::vector<Found> found_;
};

} // namespace vkattn
