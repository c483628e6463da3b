#include "host.hpp"

namespace vkattn::test {
namespace {

VKAPI_ATTR VkBool32 VKAPI_CALL onMessage(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT *data, void *messages) {
    // Newer layers leave the name of the rule out of the text.
    const std::string rule = data->pMessageIdName ? data->pMessageIdName : "";
    static_cast<std::vector<std::string> *>(messages)->push_back(rule + ": " + data->pMessage);
    return VK_FALSE;
}

} // namespace

VkDescriptorPool makeDescriptorPool(VkDevice device, uint32_t sets, uint32_t storageDescriptors) {
    if (!sets) return VK_NULL_HANDLE;
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, storageDescriptors};
    VkDescriptorPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    VkDescriptorPool pool = VK_NULL_HANDLE;
    return vkCreateDescriptorPool(device, &info, nullptr, &pool) == VK_SUCCESS ? pool : VK_NULL_HANDLE;
}

Host::Host(const HostOptions &options) {
    ready = createInstance(options) && createDevice(options) && createBuffer(options.bytes) && createCommands();
    host.structSize = sizeof host;
    host.apiVersion = options.apiVersion;
    host.instance = instance;
    host.physicalDevice = physicalDevice;
    host.device = device;
    host.getInstanceProcAddr = options.getInstanceProcAddr;
    host.enabledExtensions = extensions.data();
    host.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    host.enabledFeatures = features.pNext ? &features : nullptr;
    host.debugLabels = options.debugUtils;
}

bool Host::createCommands() {
    VkCommandPoolCreateInfo poolInfo{};
    poolInfo.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    poolInfo.queueFamilyIndex = family;
    if (vkCreateCommandPool(device, &poolInfo, nullptr, &pool)) return failed("vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.commandBufferCount = 1;
    if (vkAllocateCommandBuffers(device, &allocate, &commands)) return failed("vkAllocateCommandBuffers");
    if (!(descriptors = makeDescriptorPool(device, 16, 256))) return failed("vkCreateDescriptorPool");
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    if (vkBeginCommandBuffer(commands, &begin)) return failed("vkBeginCommandBuffer");
    return true;
}

bool Host::failed(const char *what) {
    why = what;
    return false;
}

bool Host::createInstance(const HostOptions &options) {
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = options.apiVersion;
    const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT validation{};
    validation.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    validation.enabledValidationFeatureCount = 1;
    validation.pEnabledValidationFeatures = enabled;
    const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    std::vector<const char *> wanted;
    if (options.debugUtils || options.validation) wanted.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (options.validation) wanted.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pNext = options.validation ? &validation : nullptr;
    info.pApplicationInfo = &application;
    info.enabledLayerCount = options.validation ? 1 : 0;
    info.ppEnabledLayerNames = layers;
    info.enabledExtensionCount = static_cast<uint32_t>(wanted.size());
    info.ppEnabledExtensionNames = wanted.data();
    if (vkCreateInstance(&info, nullptr, &instance)) return failed("vkCreateInstance");
    if (!options.validation) return true;
    const auto create =
        reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT"));
    VkDebugUtilsMessengerCreateInfoEXT messengerInfo{};
    messengerInfo.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messengerInfo.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messengerInfo.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    messengerInfo.pfnUserCallback = onMessage;
    messengerInfo.pUserData = &messages;
    return (create && !create(instance, &messengerInfo, nullptr, &messenger_)) || failed("vkCreateDebugUtilsMessengerEXT");
}

bool Host::createDevice(const HostOptions &options) {
    uint32_t count = 1;
    if (vkEnumeratePhysicalDevices(instance, &count, &physicalDevice) < 0 || !count) return failed("vkEnumeratePhysicalDevices");
    vkGetPhysicalDeviceQueueFamilyProperties(physicalDevice, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physicalDevice, &count, families.data());
    while (family < count && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) ++family;
    if (family == count) return failed("no queue family with compute");
    // A second queue, of another family with compute (such as the one for async compute), or else
    // of the same family.
    secondFamily = family;
    if (options.timeline)
        for (uint32_t n = 0; n < count; ++n)
            if (n != family && families[n].queueFlags & VK_QUEUE_COMPUTE_BIT) secondFamily = n;
    const uint32_t secondIndex = options.timeline && secondFamily == family && families[family].queueCount > 1 ? 1 : 0;
    const float priorities[] = {1, 1};
    VkDeviceQueueCreateInfo queueInfos[2]{};
    for (VkDeviceQueueCreateInfo &each : queueInfos) {
        each.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        each.queueFamilyIndex = &each == queueInfos ? family : secondFamily;
        each.queueCount = secondIndex + 1;
        each.pQueuePriorities = priorities;
    }

    vkattn_diagnostic diagnostic{};
    if (options.timeline || options.askVkattn) features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    if (options.timeline) {
        timelineFeatures.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
        VkPhysicalDeviceFeatures2 supported{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &timelineFeatures, {}};
        const auto getFeatures2 =
            reinterpret_cast<PFN_vkGetPhysicalDeviceFeatures2>(vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceFeatures2"));
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(physicalDevice, &properties);
        if (getFeatures2 && properties.apiVersion >= VK_API_VERSION_1_2) getFeatures2(physicalDevice, &supported);
        if (!timelineFeatures.timelineSemaphore) return failed("no timeline semaphores");
        timelineFeatures.pNext = nullptr;
        features.pNext = &timelineFeatures;
    }
    if (options.aggregate) {
        aggregate.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
        aggregate.pNext = features.pNext;
        features.pNext = &aggregate;
    }
    if (options.askVkattn) {
        const vkattn_physical_device asked =
            vkattn::physicalDevice(options.getInstanceProcAddr, instance, physicalDevice, options.apiVersion);
        if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, count, {}, &diagnostic)) return failed(diagnostic.message);
        extensions.resize(count);
        if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, count, extensions, &diagnostic) ||
            vkattn::patchFeatures(asked, extensions, features, room, &diagnostic))
            return failed(diagnostic.message);
    }
    if (options.duplicate) {
        duplicate.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
        duplicate.pNext = features.pNext;
        features.pNext = &duplicate;
    }
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = features.pNext ? &features : nullptr;
    info.queueCreateInfoCount = secondFamily == family ? 1 : 2;
    info.pQueueCreateInfos = queueInfos;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    if (vkCreateDevice(physicalDevice, &info, nullptr, &device)) return failed("vkCreateDevice");
    vkGetDeviceQueue(device, family, 0, &queue);
    vkGetDeviceQueue(device, secondFamily, secondIndex, &secondQueue);
    return true;
}

bool Host::createBuffer(VkDeviceSize size) {
    VkBufferCreateInfo bufferInfo{};
    bufferInfo.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    bufferInfo.size = bytes = size;
    bufferInfo.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    if (vkCreateBuffer(device, &bufferInfo, nullptr, &buffer)) return failed("vkCreateBuffer");
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
        if (++memoryInfo.memoryTypeIndex == types.memoryTypeCount) return failed("no memory that the host can reach");
    if (vkAllocateMemory(device, &memoryInfo, nullptr, &memory)) return failed("vkAllocateMemory");
    void *address = nullptr;
    if (vkBindBufferMemory(device, buffer, memory, 0) || vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &address))
        return failed("vkMapMemory");
    mapped = static_cast<unsigned char *>(address);
    return true;
}

bool Host::submitAndWait() {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                         nullptr);
    if (vkEndCommandBuffer(commands)) return false;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, nullptr, 0, nullptr, nullptr, 1, &commands, 0, nullptr};
    return vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS && vkQueueWaitIdle(queue) == VK_SUCCESS;
}

Host::~Host() {
    if (device) {
        vkDestroyDescriptorPool(device, descriptors, nullptr);
        vkDestroyCommandPool(device, pool, nullptr);
        vkDestroyBuffer(device, buffer, nullptr);
        vkFreeMemory(device, memory, nullptr);
        vkDestroyDevice(device, nullptr);
    }
    if (messenger_) {
        const auto destroy =
            reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT"));
        if (destroy) destroy(instance, messenger_, nullptr);
    }
    if (instance) vkDestroyInstance(instance, nullptr);
}

} // namespace vkattn::test
