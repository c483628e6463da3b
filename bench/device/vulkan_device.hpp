// A bare Vulkan device that the benchmark owns: the runtime does not give away its own, and the
// peaks need two shaders and two buffers.
#pragma once

#include <vkattn/runtime.hpp>

#include <volk.h> // with VK_NO_PROTOTYPES, from CMakeLists.txt

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace vkattn::bench {

// A Vulkan call has failed.
class VulkanError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

class VulkanDevice {
  public:
    // The push constants of shaders/*.comp.
    struct Push {
        uint32_t steps, elements, groups;
        float factor;
    };
    struct Buffer {
        VkBuffer buffer = VK_NULL_HANDLE;
        VkDeviceMemory memory = VK_NULL_HANDLE;
        uint64_t bytes = 0;
    };

    enum class Features {
        none,
        // The extensions and features that the library asks for too, as the runtime enables them.
        library,
    };

    // Creates the device with those of the extensions that it has. Throws VulkanError.
    explicit VulkanDevice(const DeviceInfo &wanted, std::span<const char *const> extensions = {}, Features features = Features::none);
    ~VulkanDevice();
    VulkanDevice(const VulkanDevice &) = delete;
    VulkanDevice &operator=(const VulkanDevice &) = delete;

    [[nodiscard]] const VkPhysicalDeviceLimits &limits() const { return properties_.limits; }
    [[nodiscard]] uint32_t apiVersion() const { return apiVersion_; } // of the instance
    [[nodiscard]] VkInstance instance() const { return instance_; }
    [[nodiscard]] VkPhysicalDevice physicalDevice() const { return physical_; }
    [[nodiscard]] VkDevice handle() const { return device_; }
    // The enabled extensions.
    [[nodiscard]] const std::vector<const char *> &extensions() const { return extensions_; }
    // The enabled features.
    [[nodiscard]] const VkPhysicalDeviceFeatures2 *features() const { return hasFeatures_ ? &features_ : nullptr; }
    // Returns the host of a vkattn context on the device. The device and `tuning` outlive its use.
    [[nodiscard]] vkattn_host host(const std::string &tuning) const;
    [[nodiscard]] VkCommandBuffer startRecording(); // the one command buffer, empty
    void submitRecorded();                          // and waits for the end
    // Makes a pipeline with the constants, whose ids count from 0.
    [[nodiscard]] VkPipeline makePipeline(std::span<const uint32_t> spirv, std::span<const uint32_t> constants);
    // Reserves device-local, zeroed memory. Earlier contents are lost.
    void reserve(Buffer &buffer, uint64_t bytes);
    void release(Buffer &buffer);
    // Returns the seconds of a vkCmdCopyBuffer of the smaller buffer's size, by the device's clock
    // where the device has one.
    [[nodiscard]] double secondsToCopy(const Buffer &from, const Buffer &to);
    void bind(const Buffer &input, const Buffer &result);
    [[nodiscard]] double secondsOf(VkPipeline pipeline, const std::array<uint32_t, 3> &groups, const Push &push);
    void destroyPipeline(VkPipeline pipeline);

  private:
    [[nodiscard]] vkattn_physical_device named() const {
        return vkattn::physicalDevice(vkGetInstanceProcAddr, instance_, physical_, apiVersion_);
    }
    void open(const DeviceInfo &wanted, std::span<const char *const> extensions, Features features);
    [[nodiscard]] VkPhysicalDevice find(const DeviceInfo &wanted) const;
    void makeLayouts();
    void close();
    void begin();
    double submit();
    template <class Record> double secondsOfCommands(const Record &record);

    void addLibraryExtensions();
    void chooseFeatures();

    uint32_t apiVersion_ = 0;
    VkInstance instance_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    std::vector<const char *> extensions_;
    bool hasFeatures_ = false;
    VkPhysicalDeviceFeatures2 features_{};
    vkattn_feature_storage featureRoom_{};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables_{};
    VkPhysicalDeviceProperties properties_{};
    VkPhysicalDeviceMemoryProperties memory_{};
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkFence fence_ = VK_NULL_HANDLE;
    VkQueryPool queries_ = VK_NULL_HANDLE; // NULL: no timestamps
    uint64_t timestampMask_ = 0;
    VkDescriptorSetLayout setLayout_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    VkDescriptorSet set_ = VK_NULL_HANDLE;
};

} // namespace vkattn::bench
