// A host of vkattn::core, as a test needs one.
#pragma once

#include "support/faulty_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <vulkan/vulkan.h>

namespace vkattn::test {

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
        VkPhysicalDeviceMemoryProperties types;
        vkGetPhysicalDeviceMemoryProperties(physicalDevice, &types);
        const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        while (!(requirements.memoryTypeBits >> memoryInfo.memoryTypeIndex & 1) ||
               (types.memoryTypes[memoryInfo.memoryTypeIndex].propertyFlags & wanted) != wanted)
            if (++memoryInfo.memoryTypeIndex == types.memoryTypeCount) return;
        if (vkAllocateMemory(device, &memoryInfo, nullptr, &memory)) return;
        vkBindBufferMemory(device, buffer, memory, 0);
        void *address = nullptr;
        if (vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &address)) return;
        mapped = static_cast<unsigned char *>(address);
        vkGetDeviceQueue(device, 0, 0, &queue);
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

    bool submitAndWait() {
        VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                             nullptr);
        if (vkEndCommandBuffer(commands)) return false;
        VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, nullptr, 0, nullptr, nullptr, 1, &commands, 0, nullptr};
        return vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS && vkQueueWaitIdle(queue) == VK_SUCCESS;
    }

    bool ready = false;
    VkQueue queue = VK_NULL_HANDLE;
    unsigned char *mapped = nullptr;
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

} // namespace vkattn::test
