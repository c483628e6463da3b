// A Vulkan instance of the runtime's own, and what it finds.
#pragma once

#include "runtime/vulkan.hpp"
#include "vkattn/runtime.hpp"

#include <memory>

namespace vkattn {

class Instance {
  public:
    // NULL with the reason where there is no loader, or no driver that makes an instance.
    [[nodiscard]] static std::unique_ptr<Instance> create(const RuntimeOptions &options, std::string &why);
    ~Instance();
    Instance(const Instance &) = delete;
    Instance &operator=(const Instance &) = delete;

    struct Found {
        VkPhysicalDevice handle;
        DeviceInfo info;
    };
    [[nodiscard]] const std::vector<Found> &devices() const { return found_; } // ranked
    [[nodiscard]] const InstanceTable &table() const { return table_; }
    [[nodiscard]] VkInstance handle() const { return instance_; }
    [[nodiscard]] uint32_t apiVersion() const { return apiVersion_; }
    // Device extensions to enable: what vkattn can use and the device lists, and what Vulkan wants to see enabled.
    [[nodiscard]] std::vector<const char *> deviceExtensions(VkPhysicalDevice device) const;

  private:
    Instance() = default;
    [[nodiscard]] bool makeInstance(const RuntimeOptions &options, std::string &why);
    void findDevices();
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
