// vkattn::core on a device of the test's own: what record refuses, and that nothing is compiled unless allowed.
#include "environment.hpp"
#include "support/faulty_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <vulkan/vulkan.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// The least that a host has: instance, device, command buffer, one buffer large enough for everything.
class Host {
  public:
    Host() {
        VkApplicationInfo application{};
        application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        application.apiVersion = VK_API_VERSION_1_0;
        VkInstanceCreateInfo instanceInfo{};
        instanceInfo.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        instanceInfo.pApplicationInfo = &application;
        if (vkCreateInstance(&instanceInfo, nullptr, &instance)) return;
        uint32_t count = 1;
        vkEnumeratePhysicalDevices(instance, &count, &physicalDevice);
        if (!count) return;
        const float priority = 1;
        VkDeviceQueueCreateInfo queueInfo{};
        queueInfo.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queueInfo.queueCount = 1;
        queueInfo.pQueuePriorities = &priority;
        VkDeviceCreateInfo deviceInfo{};
        deviceInfo.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        deviceInfo.queueCreateInfoCount = 1;
        deviceInfo.pQueueCreateInfos = &queueInfo;
        if (vkCreateDevice(physicalDevice, &deviceInfo, nullptr, &device)) return;
        VkCommandPoolCreateInfo poolInfo{};
        poolInfo.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
        vkCreateCommandPool(device, &poolInfo, nullptr, &pool);
        VkCommandBufferAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        allocate.commandPool = pool;
        allocate.commandBufferCount = 1;
        vkAllocateCommandBuffers(device, &allocate, &commands);
        VkBufferCreateInfo bufferInfo{};
        bufferInfo.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
        bufferInfo.size = 1 << 20;
        bufferInfo.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
        vkCreateBuffer(device, &bufferInfo, nullptr, &buffer);
        VkMemoryRequirements requirements;
        vkGetBufferMemoryRequirements(device, buffer, &requirements);
        VkMemoryAllocateInfo memoryInfo{};
        memoryInfo.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        memoryInfo.allocationSize = requirements.size;
        while (!(requirements.memoryTypeBits >> memoryInfo.memoryTypeIndex & 1)) ++memoryInfo.memoryTypeIndex;
        vkAllocateMemory(device, &memoryInfo, nullptr, &memory);
        vkBindBufferMemory(device, buffer, memory, 0);
        VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 64};
        VkDescriptorPoolCreateInfo descriptorInfo{};
        descriptorInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        descriptorInfo.maxSets = 16;
        descriptorInfo.poolSizeCount = 1;
        descriptorInfo.pPoolSizes = &size;
        vkCreateDescriptorPool(device, &descriptorInfo, nullptr, &descriptors);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        vkBeginCommandBuffer(commands, &begin);
        host.structSize = sizeof host;
        host.instance = instance;
        host.physicalDevice = physicalDevice;
        host.device = device;
        host.getInstanceProcAddr = faultyGetInstanceProcAddr;
        ready = true;
    }
    ~Host() {
        if (device) {
            vkDestroyDescriptorPool(device, descriptors, nullptr);
            vkDestroyCommandPool(device, pool, nullptr);
            vkDestroyBuffer(device, buffer, nullptr);
            vkFreeMemory(device, memory, nullptr);
            vkDestroyDevice(device, nullptr);
        }
        if (instance) vkDestroyInstance(instance, nullptr);
    }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    bool ready = false;
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physicalDevice = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDescriptorPool descriptors = VK_NULL_HANDLE;
    vkattn_host host{};
};

} // namespace

TEST(Record, refusesWhatBreaksItsRules) {
    Host host;
    ASSERT_TRUE(host.ready);
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16);
    const vkattn_problem p = problem(t, t, t, t);
    vkattn_requirements requirements{};
    ASSERT_EQ(context.query(p, requirements, &why), VKATTN_OK) << why.message;
    EXPECT_STREQ(requirements.kernelName, "staged");
    EXPECT_EQ(requirements.workspaceBytes, 2u * 8 * 8 * 4);
    EXPECT_EQ(requirements.descriptorSetCount, requirements.dispatchCount); // no push descriptors were enabled
    EXPECT_EQ(requirements.storageDescriptorCount, 4 * requirements.dispatchCount);

    const uint64_t bytes = 2 * 8 * 16 * 4, step = 4096;
    const std::vector<vkattn_binding> good = {{VKATTN_Q, host.buffer, 0, bytes},
                                              {VKATTN_K, host.buffer, step, bytes},
                                              {VKATTN_V, host.buffer, 2 * step, bytes},
                                              {VKATTN_OUT, host.buffer, 3 * step, bytes},
                                              {VKATTN_WORKSPACE, host.buffer, 4 * step, requirements.workspaceBytes}};
    const auto refused = [&](const std::string &expected, auto spoil, VkDescriptorPool pool) {
        std::vector<vkattn_binding> bindings = good;
        spoil(bindings);
        why = {};
        EXPECT_EQ(context.record(p, host.commands, bindings, pool, &why), VKATTN_ERROR_INVALID_ARGUMENT) << expected;
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    refused(
        "descriptorPool is required", [](auto &) {}, VK_NULL_HANDLE);
    refused(
        "workspace is not bound", [](auto &b) { b.pop_back(); }, host.descriptors);
    refused(
        "q is not bound", [](auto &b) { b.erase(b.begin()); }, host.descriptors);
    refused(
        "bound twice", [](auto &b) { b.push_back(b[1]); }, host.descriptors);
    refused(
        "expected at least", [](auto &b) { b[2].size -= 1; }, host.descriptors);
    refused(
        "VK_NULL_HANDLE", [](auto &b) { b[2].buffer = VK_NULL_HANDLE; }, host.descriptors);
    refused(
        "multiple of", [](auto &b) { b[3].offset += 2; }, host.descriptors);
    refused(
        "multiple of", [](auto &b) { b[4].offset += 4; }, host.descriptors);
    refused(
        "does not use",
        [](auto &b) {
            b.push_back({VKATTN_LSE, b[0].buffer, 0, 64});
        },
        host.descriptors);

    uint32_t pipelines = 0;
    EXPECT_EQ(context.record(p, host.commands, good, host.descriptors, &why), VKATTN_NOT_READY);
    vkattnCompileStatistics(context.handle(), &pipelines, nullptr);
    EXPECT_EQ(pipelines, 0u);
    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    vkattnCompileStatistics(context.handle(), &pipelines, nullptr);
    EXPECT_EQ(pipelines, requirements.pipelineCount);
    EXPECT_EQ(context.record(p, host.commands, good, host.descriptors, &why), VKATTN_OK) << why.message;

    // A pool that is too small is an error, not a crash. (Not every driver counts: Mesa 22 gives more sets than a pool was made for.)
    fault = {"vkAllocateDescriptorSets", VK_ERROR_OUT_OF_POOL_MEMORY, 1, 1, false};
    EXPECT_EQ(context.record(p, host.commands, good, host.descriptors, &why), VKATTN_ERROR_OUT_OF_DEVICE_MEMORY);
    fault = {};
    EXPECT_EQ(why.vkResult, VK_ERROR_OUT_OF_POOL_MEMORY);
    EXPECT_NE(std::string(why.message).find("vkattn_requirements"), std::string::npos) << why.message;
}

TEST(Record, contextsRefuseWhatTheyCannotUse) {
    Host host;
    ASSERT_TRUE(host.ready);
    Context context;
    vkattn_diagnostic why{};
    vkattn_host bad = host.host;
    bad.device = VK_NULL_HANDLE;
    EXPECT_EQ(context.create(bad, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_FALSE(context);
    vkattn_caps caps{};
    caps.structSize = sizeof caps; // a device with no limits at all
    bad = host.host;
    bad.capsLimit = &caps;
    EXPECT_EQ(context.create(bad, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("maxPerStageDescriptorStorageBuffers"), std::string::npos) << why.message;
}
