// The rendering layer of an engine that does not exist: pipelines, bindings and dispatches of its
// own, Vulkan below, nothing of vkattn. One queue, one memory block that everything is carved from,
// and a frame that is recorded, submitted and waited for.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rhi {

// Why the layer could not start.
struct Failure {
    std::string message;
};

struct Range { // of the block
    uint64_t offset = 0, bytes = 0;
};

struct Shader {
    const char *name = "";
    const uint32_t *spirv = nullptr;
    size_t spirvBytes = 0;
    const VkSpecializationInfo *constants = nullptr;
    uint32_t bindingCount = 0, pushBytes = 0;
    bool fullSubgroups = false;
    uint32_t requiredSubgroupSize = 0; // 0: none
};
using PipelineId = uint32_t;

struct Dispatch {
    PipelineId pipeline = 0;
    std::vector<Range> bindings; // storage buffers, set 0, by binding number
    const void *push = nullptr;
    std::array<uint32_t, 3> groups{};
};

class Device {
  public:
    // Opens the first Vulkan device, with the validation layer where it is installed. Throws
    // Failure.
    Device();
    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    [[nodiscard]] std::string name() const { return properties_.deviceName; }
    [[nodiscard]] bool isCpu() const { return properties_.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }
    [[nodiscard]] bool validated() const { return validated_; }
    // Messages of the validation layer.
    [[nodiscard]] const std::vector<std::string> &messages() const { return messages_; }
    void forgetMessages() { messages_.clear(); }

    // The facts that a library needs to plan for this device.
    [[nodiscard]] VkInstance instance() const { return instance_; }
    [[nodiscard]] VkPhysicalDevice physicalDevice() const { return physical_; }
    [[nodiscard]] static constexpr uint32_t apiVersion() { return VK_API_VERSION_1_1; }
    [[nodiscard]] const std::vector<const char *> &extensions() const { return extensions_; }
    [[nodiscard]] const VkPhysicalDeviceFeatures2 *features() const { return &features_; }

    // Memory: everything at once goes away with reset().
    void reset();
    [[nodiscard]] Range allocate(uint64_t bytes, uint64_t alignment);
    [[nodiscard]] unsigned char *data(const Range &range) { return mapped_ + range.offset; }

    [[nodiscard]] PipelineId makePipeline(const Shader &shader);

    void beginFrame();
    void dispatch(const Dispatch &dispatch);
    void computeBarrier();
    void endFrame(); // submits and waits; what shaders wrote is then there for the host

  private:
    struct Pipeline {
        VkPipeline pipeline;
        uint32_t bindingCount, pushBytes;
    };
    struct Layout {
        VkDescriptorSetLayout set;
        VkPipelineLayout pipelines;
    };
    void open();
    void close();
    void makeInstance();
    void makeDevice();
    void makeBlock();
    const Layout &layoutOf(uint32_t bindingCount, uint32_t pushBytes);
    static VKAPI_ATTR VkBool32 VKAPI_CALL onMessage(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT,
                                                    const VkDebugUtilsMessengerCallbackDataEXT *data, void *self);

    static constexpr uint64_t blockBytes = 16u << 20;
    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    VkPhysicalDeviceProperties properties_{};
    VkPhysicalDeviceFeatures2 features_{};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroups_{};
    std::vector<const char *> extensions_;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkCommandPool commandPool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    unsigned char *mapped_ = nullptr;
    uint64_t used_ = 0;
    std::vector<Pipeline> pipelines_;
    // Pipeline layouts, by bindings and bytes of push constants.
    std::map<std::pair<uint32_t, uint32_t>, Layout> layouts_;
    bool validated_ = false;
    std::vector<std::string> messages_;
};

} // namespace rhi
