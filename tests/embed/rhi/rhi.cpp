#include "rhi.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace rhi {
namespace {

void check(VkResult result, const char *call) {
    if (result != VK_SUCCESS) throw Failure{std::string(call) + " failed with VkResult " + std::to_string(static_cast<int>(result))};
}

constexpr const char *validationLayer = "VK_LAYER_KHRONOS_validation";

bool validationInstalled() {
    uint32_t count = 0;
    vkEnumerateInstanceLayerProperties(&count, nullptr);
    std::vector<VkLayerProperties> layers(count);
    vkEnumerateInstanceLayerProperties(&count, layers.data());
    return std::any_of(layers.begin(), layers.end(),
                       [](const VkLayerProperties &l) { return std::string_view(l.layerName) == validationLayer; });
}

} // namespace

Device::Device() {
    try {
        open();
    } catch (...) {
        close();
        throw;
    }
}

Device::~Device() {
    close();
}

VKAPI_ATTR VkBool32 VKAPI_CALL Device::onMessage(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *self) {
    // Newer layers leave the name of the rule out of the text.
    const std::string rule = data->pMessageIdName ? data->pMessageIdName : "";
    static_cast<Device *>(self)->messages_.push_back(rule + ": " + data->pMessage);
    return VK_FALSE;
}

void Device::makeInstance() {
    validated_ = validationInstalled();
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pApplicationName = "rhi";
    application.apiVersion = apiVersion();
    const VkValidationFeatureEnableEXT synchronization = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT validation{};
    validation.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    validation.enabledValidationFeatureCount = 1;
    validation.pEnabledValidationFeatures = &synchronization;
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    if (validated_) {
        info.pNext = &validation;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &validationLayer;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = &extension;
    }
    check(vkCreateInstance(&info, nullptr, &instance_), "vkCreateInstance");
    if (!validated_) return;
    VkDebugUtilsMessengerCreateInfoEXT messenger{};
    messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = onMessage;
    messenger.pUserData = this;
    const auto create =
        reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
    if (!create) throw Failure{"vkCreateDebugUtilsMessengerEXT is not there"};
    check(create(instance_, &messenger, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

void Device::makeDevice() {
    uint32_t count = 0;
    check(vkEnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
    if (count == 0) throw Failure{"there is no Vulkan device"};
    count = 1;
    if (vkEnumeratePhysicalDevices(instance_, &count, &physical_) < 0 || count == 0) throw Failure{"vkEnumeratePhysicalDevices failed"};
    vkGetPhysicalDeviceProperties(physical_, &properties_);
    if (properties_.apiVersion < apiVersion()) throw Failure{"the device has no Vulkan 1.1"};

    uint32_t families = 0, family = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical_, &families, nullptr);
    std::vector<VkQueueFamilyProperties> queues(families);
    vkGetPhysicalDeviceQueueFamilyProperties(physical_, &families, queues.data());
    while (family < families && !(queues[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) ++family;
    if (family == families) throw Failure{"the device has no queue family with compute"};

    uint32_t listed = 0;
    vkEnumerateDeviceExtensionProperties(physical_, nullptr, &listed, nullptr);
    std::vector<VkExtensionProperties> known(listed);
    vkEnumerateDeviceExtensionProperties(physical_, nullptr, &listed, known.data());
    for (const char *name : {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME})
        if (std::any_of(known.begin(), known.end(),
                        [&](const VkExtensionProperties &e) { return std::string_view(e.extensionName) == name; }))
            extensions_.push_back(name);
    features_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    if (!extensions_.empty() && std::string_view(extensions_[0]) == VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME) {
        subgroups_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
        features_.pNext = &subgroups_;
        vkGetPhysicalDeviceFeatures2(physical_, &features_);
        // The engine asks only how the device forms subgroups.
        features_.features = {};
    }

    const float priority = 1;
    VkDeviceQueueCreateInfo queueInfo{};
    queueInfo.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queueInfo.queueFamilyIndex = family;
    queueInfo.queueCount = 1;
    queueInfo.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &features_;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queueInfo;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions_.size());
    info.ppEnabledExtensionNames = extensions_.data();
    check(vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");
    vkGetDeviceQueue(device_, family, 0, &queue_);
    VkCommandPoolCreateInfo poolInfo{};
    poolInfo.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    poolInfo.queueFamilyIndex = family;
    check(vkCreateCommandPool(device_, &poolInfo, nullptr, &commandPool_), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = commandPool_;
    allocate.commandBufferCount = 1;
    check(vkAllocateCommandBuffers(device_, &allocate, &commands_), "vkAllocateCommandBuffers");
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 16384};
    VkDescriptorPoolCreateInfo descriptorInfo{};
    descriptorInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    descriptorInfo.maxSets = 2048;
    descriptorInfo.poolSizeCount = 1;
    descriptorInfo.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device_, &descriptorInfo, nullptr, &descriptors_), "vkCreateDescriptorPool");
}

void Device::makeBlock() {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = blockBytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    check(vkCreateBuffer(device_, &info, nullptr, &buffer_), "vkCreateBuffer");
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(device_, buffer_, &requirements);
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(physical_, &memory);
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while (type < memory.memoryTypeCount &&
           (!(requirements.memoryTypeBits >> type & 1) || (memory.memoryTypes[type].propertyFlags & wanted) != wanted))
        ++type;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.allocationSize = requirements.size;
    allocate.memoryTypeIndex = type;
    check(vkAllocateMemory(device_, &allocate, nullptr, &memory_), "vkAllocateMemory");
    check(vkBindBufferMemory(device_, buffer_, memory_, 0), "vkBindBufferMemory");
    void *address = nullptr;
    check(vkMapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &address), "vkMapMemory");
    mapped_ = static_cast<unsigned char *>(address);
}

void Device::open() {
    makeInstance();
    makeDevice();
    makeBlock();
}

void Device::close() {
    if (device_) {
        for (const Pipeline &each : pipelines_) vkDestroyPipeline(device_, each.pipeline, nullptr);
        for (const auto &[key, layout] : layouts_) {
            vkDestroyPipelineLayout(device_, layout.pipelines, nullptr);
            vkDestroyDescriptorSetLayout(device_, layout.set, nullptr);
        }
        vkDestroyDescriptorPool(device_, descriptors_, nullptr);
        vkDestroyCommandPool(device_, commandPool_, nullptr);
        vkDestroyBuffer(device_, buffer_, nullptr);
        vkFreeMemory(device_, memory_, nullptr);
        vkDestroyDevice(device_, nullptr);
    }
    if (messenger_)
        reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"))(
            instance_, messenger_, nullptr);
    if (instance_) vkDestroyInstance(instance_, nullptr);
}

void Device::reset() {
    used_ = 0;
}

Range Device::allocate(uint64_t bytes, uint64_t alignment) {
    const uint64_t offset = (used_ + alignment - 1) / alignment * alignment;
    if (bytes > blockBytes || offset > blockBytes - bytes) throw Failure{"the block of memory is full"};
    used_ = offset + bytes;
    return {offset, bytes};
}

const Device::Layout &Device::layoutOf(uint32_t bindingCount, uint32_t pushBytes) {
    const auto [at, isNew] = layouts_.try_emplace({bindingCount, pushBytes});
    Layout &layout = at->second;
    if (!isNew) return layout;
    std::vector<VkDescriptorSetLayoutBinding> bindings(bindingCount);
    for (uint32_t n = 0; n < bindingCount; ++n)
        bindings[n] = {n, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo setInfo{};
    setInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    setInfo.bindingCount = bindingCount;
    setInfo.pBindings = bindings.data();
    check(vkCreateDescriptorSetLayout(device_, &setInfo, nullptr, &layout.set), "vkCreateDescriptorSetLayout");
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, pushBytes};
    VkPipelineLayoutCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    info.setLayoutCount = 1;
    info.pSetLayouts = &layout.set;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &range;
    check(vkCreatePipelineLayout(device_, &info, nullptr, &layout.pipelines), "vkCreatePipelineLayout");
    return layout;
}

PipelineId Device::makePipeline(const Shader &shader) {
    VkShaderModuleCreateInfo moduleInfo{};
    moduleInfo.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    moduleInfo.codeSize = shader.spirvBytes;
    moduleInfo.pCode = shader.spirv;
    VkShaderModule module = VK_NULL_HANDLE;
    check(vkCreateShaderModule(device_, &moduleInfo, nullptr, &module), "vkCreateShaderModule");
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.flags =
        shader.fullSubgroups ? VkPipelineShaderStageCreateFlags{VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT} : 0;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{};
    size.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    size.requiredSubgroupSize = shader.requiredSubgroupSize;
    if (shader.requiredSubgroupSize) info.stage.pNext = &size;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = shader.constants;
    info.layout = layoutOf(shader.bindingCount, shader.pushBytes).pipelines;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult result = vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
    vkDestroyShaderModule(device_, module, nullptr);
    check(result, "vkCreateComputePipelines");
    pipelines_.push_back({pipeline, shader.bindingCount, shader.pushBytes});
    return static_cast<PipelineId>(pipelines_.size() - 1);
}

void Device::beginFrame() {
    check(vkResetCommandPool(device_, commandPool_, 0), "vkResetCommandPool");
    check(vkResetDescriptorPool(device_, descriptors_, 0), "vkResetDescriptorPool");
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
}

void Device::dispatch(const Dispatch &d) {
    const Pipeline &pipeline = pipelines_.at(d.pipeline);
    const Layout &layout = layoutOf(pipeline.bindingCount, pipeline.pushBytes);
    VkDescriptorSetAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = descriptors_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &layout.set;
    VkDescriptorSet set = VK_NULL_HANDLE;
    check(vkAllocateDescriptorSets(device_, &allocate, &set), "vkAllocateDescriptorSets");
    std::vector<VkDescriptorBufferInfo> buffers;
    for (const Range &range : d.bindings) buffers.push_back({buffer_, range.offset, range.bytes});
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set;
    write.descriptorCount = static_cast<uint32_t>(buffers.size()); // runs on into the next binding
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = buffers.data();
    vkUpdateDescriptorSets(device_, 1, &write, 0, nullptr);
    vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline);
    vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, layout.pipelines, 0, 1, &set, 0, nullptr);
    vkCmdPushConstants(commands_, layout.pipelines, VK_SHADER_STAGE_COMPUTE_BIT, 0, pipeline.pushBytes, d.push);
    vkCmdDispatch(commands_, d.groups[0], d.groups[1], d.groups[2]);
}

void Device::computeBarrier() {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr,
                         0, nullptr);
}

void Device::endFrame() {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                         nullptr);
    check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    check(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    check(vkQueueWaitIdle(queue_), "vkQueueWaitIdle");
}

} // namespace rhi
