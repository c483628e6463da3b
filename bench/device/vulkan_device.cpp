#include "device/vulkan_device.hpp"

#include <algorithm>
#include <chrono>

namespace vkattn::bench {
namespace {

void check(const char *call, VkResult result) {
    if (result != VK_SUCCESS) throw VulkanError(std::string(call) + " failed: VkResult " + std::to_string(static_cast<int>(result)));
}

bool has(const std::vector<VkExtensionProperties> &list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [&](const VkExtensionProperties &e) { return name == e.extensionName; });
}

std::vector<VkExtensionProperties> instanceExtensions() {
    uint32_t count = 0;
    if (vkEnumerateInstanceExtensionProperties(nullptr, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<VkExtensionProperties> list(count);
    if (vkEnumerateInstanceExtensionProperties(nullptr, &count, list.data()) < 0) return {};
    list.resize(count);
    return list;
}

std::vector<VkExtensionProperties> deviceExtensions(VkPhysicalDevice device) {
    uint32_t count = 0;
    if (vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<VkExtensionProperties> list(count);
    if (vkEnumerateDeviceExtensionProperties(device, nullptr, &count, list.data()) < 0) return {};
    list.resize(count);
    return list;
}

VkInstance makeInstance(uint32_t apiVersion) {
    const std::vector<VkExtensionProperties> listed = instanceExtensions();
    std::vector<const char *> extensions;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    for (const char *name : {"VK_KHR_portability_enumeration", "VK_KHR_get_physical_device_properties2"})
        if (has(listed, name)) extensions.push_back(name);
    // MoltenVK is listed only to instances that ask for portability.
    if (has(listed, "VK_KHR_portability_enumeration"))
        // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
        info.flags |= 1;
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = apiVersion;
    info.pApplicationInfo = &application;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    VkInstance instance = VK_NULL_HANDLE;
    check("vkCreateInstance", vkCreateInstance(&info, nullptr, &instance));
    return instance;
}

bool isSame(const VkPhysicalDeviceProperties &a, const DeviceInfo &b) {
    return a.vendorID == b.vendorId && a.deviceID == b.deviceId && b.name == a.deviceName;
}

} // namespace

VulkanDevice::VulkanDevice(const DeviceInfo &wanted, std::span<const char *const> extensions, Features features) {
    try {
        open(wanted, extensions, features);
    } catch (...) {
        close();
        throw;
    }
}

VulkanDevice::~VulkanDevice() {
    close();
}

// The runtime ranks its devices. Devices of equal rank keep the loader's order there and here.
VkPhysicalDevice VulkanDevice::find(const DeviceInfo &wanted) const {
    size_t skip = 0;
    for (const DeviceInfo &other : Runtime::devices())
        skip += other.index < wanted.index && other.name == wanted.name && other.vendorId == wanted.vendorId &&
                other.deviceId == wanted.deviceId;
    uint32_t count = 0;
    check("vkEnumeratePhysicalDevices", vkEnumeratePhysicalDevices(instance_, &count, nullptr));
    std::vector<VkPhysicalDevice> handles(count);
    check("vkEnumeratePhysicalDevices", vkEnumeratePhysicalDevices(instance_, &count, handles.data()));
    for (VkPhysicalDevice handle : handles) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(handle, &properties);
        if (isSame(properties, wanted) && skip-- == 0) return handle;
    }
    throw VulkanError("the device is not there a second time");
}

void VulkanDevice::addLibraryExtensions() {
    vkattn_diagnostic why{};
    for (const vkattn_need need : {VKATTN_REQUIRED, VKATTN_HELPFUL}) {
        uint32_t count = 0;
        vkattn_result r = vkattn::deviceExtensions(named(), need, count, {}, &why);
        std::vector<const char *> names(count);
        if (r == VKATTN_OK) r = vkattn::deviceExtensions(named(), need, count, names, &why);
        if (r != VKATTN_OK) throw VulkanError(why.message);
        for (const char *name : names)
            if (std::none_of(extensions_.begin(), extensions_.end(), [&](std::string_view each) { return each == name; }))
                extensions_.push_back(name);
    }
}

void VulkanDevice::chooseFeatures() {
    features_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    executables_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
    executables_.pipelineExecutableInfo = VK_TRUE;
    const auto wants = [&](std::string_view name) {
        return std::any_of(extensions_.begin(), extensions_.end(), [&](std::string_view each) { return each == name; });
    };
    if (wants(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) features_.pNext = &executables_;
    vkattn_diagnostic why{};
    if (vkattn::patchFeatures(named(), extensions_, features_, featureRoom_, &why) != VKATTN_OK) throw VulkanError(why.message);
    hasFeatures_ = true;
}

void VulkanDevice::open(const DeviceInfo &wanted, std::span<const char *const> extensions, Features features) {
    check("volkInitialize", volkInitialize());
    apiVersion_ = std::min<uint32_t>(volkGetInstanceVersion(), VK_API_VERSION_1_3);
    instance_ = makeInstance(apiVersion_);
    volkLoadInstanceOnly(instance_);
    VkPhysicalDevice physical = physical_ = find(wanted);
    vkGetPhysicalDeviceProperties(physical, &properties_);
    vkGetPhysicalDeviceMemoryProperties(physical, &memory_);

    uint32_t familyCount = 0, family = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &familyCount, nullptr);
    std::vector<VkQueueFamilyProperties> families(familyCount);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &familyCount, families.data());
    while (family < familyCount && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) ++family;
    if (family == familyCount) throw VulkanError("the device has no queue family with compute");

    const float priority = 1;
    VkDeviceQueueCreateInfo queueInfo{};
    queueInfo.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queueInfo.queueFamilyIndex = family;
    queueInfo.queueCount = 1;
    queueInfo.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queueInfo;
    const std::vector<VkExtensionProperties> listed = deviceExtensions(physical);
    extensions_.assign(extensions.begin(), extensions.end());
    // The extension must be enabled where the device lists it.
    extensions_.push_back("VK_KHR_portability_subset");
    if (features == Features::library) addLibraryExtensions();
    std::erase_if(extensions_, [&](const char *name) { return !has(listed, name); });
    if (features == Features::library) chooseFeatures();
    info.pNext = this->features();
    info.enabledExtensionCount = static_cast<uint32_t>(extensions_.size());
    info.ppEnabledExtensionNames = extensions_.data();
    check("vkCreateDevice", vkCreateDevice(physical, &info, nullptr, &device_));
    volkLoadDevice(device_);
    vkGetDeviceQueue(device_, family, 0, &queue_);

    VkCommandPoolCreateInfo poolInfo{};
    poolInfo.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    poolInfo.queueFamilyIndex = family;
    check("vkCreateCommandPool", vkCreateCommandPool(device_, &poolInfo, nullptr, &pool_));
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool_;
    allocate.commandBufferCount = 1;
    check("vkAllocateCommandBuffers", vkAllocateCommandBuffers(device_, &allocate, &commands_));
    VkFenceCreateInfo fenceInfo{};
    fenceInfo.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    check("vkCreateFence", vkCreateFence(device_, &fenceInfo, nullptr, &fence_));

    const uint32_t bits = families[family].timestampValidBits;
    if (bits && properties_.limits.timestampPeriod > 0) {
        timestampMask_ = bits >= 64 ? ~0ull : (1ull << bits) - 1;
        VkQueryPoolCreateInfo queryInfo{};
        queryInfo.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
        queryInfo.queryType = VK_QUERY_TYPE_TIMESTAMP;
        queryInfo.queryCount = 2;
        check("vkCreateQueryPool", vkCreateQueryPool(device_, &queryInfo, nullptr, &queries_));
    }
    makeLayouts();
}

void VulkanDevice::makeLayouts() {
    VkDescriptorSetLayoutBinding bindings[2]{};
    for (uint32_t n = 0; n < 2; ++n) bindings[n] = {n, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo setInfo{};
    setInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    setInfo.bindingCount = 2;
    setInfo.pBindings = bindings;
    check("vkCreateDescriptorSetLayout", vkCreateDescriptorSetLayout(device_, &setInfo, nullptr, &setLayout_));
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
    VkPipelineLayoutCreateInfo layoutInfo{};
    layoutInfo.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layoutInfo.setLayoutCount = 1;
    layoutInfo.pSetLayouts = &setLayout_;
    layoutInfo.pushConstantRangeCount = 1;
    layoutInfo.pPushConstantRanges = &range;
    check("vkCreatePipelineLayout", vkCreatePipelineLayout(device_, &layoutInfo, nullptr, &layout_));
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
    VkDescriptorPoolCreateInfo poolInfo{};
    poolInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    poolInfo.maxSets = 1;
    poolInfo.poolSizeCount = 1;
    poolInfo.pPoolSizes = &size;
    check("vkCreateDescriptorPool", vkCreateDescriptorPool(device_, &poolInfo, nullptr, &descriptors_));
    VkDescriptorSetAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = descriptors_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &setLayout_;
    check("vkAllocateDescriptorSets", vkAllocateDescriptorSets(device_, &allocate, &set_));
}

void VulkanDevice::close() {
    if (device_) {
        vkDeviceWaitIdle(device_);
        vkDestroyDescriptorPool(device_, descriptors_, nullptr);
        vkDestroyPipelineLayout(device_, layout_, nullptr);
        vkDestroyDescriptorSetLayout(device_, setLayout_, nullptr);
        vkDestroyQueryPool(device_, queries_, nullptr);
        vkDestroyFence(device_, fence_, nullptr);
        vkDestroyCommandPool(device_, pool_, nullptr);
        vkDestroyDevice(device_, nullptr);
    }
    if (instance_) vkDestroyInstance(instance_, nullptr);
    device_ = VK_NULL_HANDLE;
    instance_ = VK_NULL_HANDLE;
}

VkPipeline VulkanDevice::makePipeline(std::span<const uint32_t> spirv, std::span<const uint32_t> constants) {
    std::vector<VkSpecializationMapEntry> entries;
    for (uint32_t id = 0; id < constants.size(); ++id) entries.push_back({id, id * 4, 4});
    const VkSpecializationInfo specialization{static_cast<uint32_t>(entries.size()), entries.data(), constants.size_bytes(),
                                              constants.data()};
    VkShaderModuleCreateInfo moduleInfo{};
    moduleInfo.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    moduleInfo.codeSize = spirv.size_bytes();
    moduleInfo.pCode = spirv.data();
    VkShaderModule module = VK_NULL_HANDLE;
    check("vkCreateShaderModule", vkCreateShaderModule(device_, &moduleInfo, nullptr, &module));
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &specialization;
    info.layout = layout_;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult result = vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
    vkDestroyShaderModule(device_, module, nullptr);
    check("vkCreateComputePipelines", result);
    return pipeline;
}

void VulkanDevice::destroyPipeline(VkPipeline pipeline) {
    vkDestroyPipeline(device_, pipeline, nullptr);
}

void VulkanDevice::reserve(Buffer &buffer, uint64_t bytes) {
    release(buffer);
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    check("vkCreateBuffer", vkCreateBuffer(device_, &info, nullptr, &buffer.buffer));
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(device_, buffer.buffer, &requirements);
    uint32_t type = 0;
    const auto fits = [&](uint32_t n) {
        return (requirements.memoryTypeBits >> n & 1) && (memory_.memoryTypes[n].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    };
    while (type < memory_.memoryTypeCount && !fits(type)) ++type;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.allocationSize = requirements.size;
    allocate.memoryTypeIndex = type;
    VkResult result =
        type < memory_.memoryTypeCount ? vkAllocateMemory(device_, &allocate, nullptr, &buffer.memory) : VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (result == VK_SUCCESS) result = vkBindBufferMemory(device_, buffer.buffer, buffer.memory, 0);
    if (result == VK_SUCCESS) {
        buffer.bytes = bytes;
        // Pages that were never written may all be one page of zeros, which a cache holds.
        begin();
        vkCmdFillBuffer(commands_, buffer.buffer, 0, VK_WHOLE_SIZE, 0);
        static_cast<void>(submit());
    } else {
        release(buffer);
    }
    check("vkAllocateMemory", result);
}

void VulkanDevice::release(Buffer &buffer) {
    vkDestroyBuffer(device_, buffer.buffer, nullptr);
    vkFreeMemory(device_, buffer.memory, nullptr);
    buffer = {};
}

void VulkanDevice::bind(const Buffer &input, const Buffer &result) {
    const VkDescriptorBufferInfo infos[] = {{input.buffer, 0, input.bytes}, {result.buffer, 0, result.bytes}};
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set_;
    write.descriptorCount = 2; // runs on into the next binding
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = infos;
    vkUpdateDescriptorSets(device_, 1, &write, 0, nullptr);
}

void VulkanDevice::begin() {
    check("vkResetCommandPool", vkResetCommandPool(device_, pool_, 0));
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    check("vkBeginCommandBuffer", vkBeginCommandBuffer(commands_, &info));
}

vkattn_host VulkanDevice::host(const std::string &tuning) const {
    vkattn_host host{};
    host.structSize = sizeof host;
    host.apiVersion = apiVersion_;
    host.instance = instance_;
    host.physicalDevice = physical_;
    host.device = device_;
    host.getInstanceProcAddr = vkGetInstanceProcAddr;
    host.enabledExtensions = extensions_.data();
    host.enabledExtensionCount = static_cast<uint32_t>(extensions_.size());
    host.enabledFeatures = features();
    host.tuning = tuning.data();
    host.tuningBytes = tuning.size();
    return host;
}

VkCommandBuffer VulkanDevice::startRecording() {
    begin();
    return commands_;
}

void VulkanDevice::submitRecorded() {
    static_cast<void>(submit());
}

// Returns the wall-clock time from submit to fence.
double VulkanDevice::submit() {
    check("vkEndCommandBuffer", vkEndCommandBuffer(commands_));
    check("vkResetFences", vkResetFences(device_, 1, &fence_));
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands_;
    const auto start = std::chrono::steady_clock::now();
    check("vkQueueSubmit", vkQueueSubmit(queue_, 1, &info, fence_));
    check("vkWaitForFences", vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Record> double VulkanDevice::secondsOfCommands(const Record &record) {
    begin();
    if (queries_) {
        vkCmdResetQueryPool(commands_, queries_, 0, 2);
        vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries_, 0);
    }
    record();
    if (queries_) vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, 1);
    const double seconds = submit();
    uint64_t stamps[2] = {};
    if (!queries_ || vkGetQueryPoolResults(device_, queries_, 0, 2, sizeof stamps, stamps, 8,
                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) != VK_SUCCESS)
        return seconds;
    return static_cast<double>((stamps[1] - stamps[0]) & timestampMask_) * static_cast<double>(properties_.limits.timestampPeriod) * 1e-9;
}

double VulkanDevice::secondsOf(VkPipeline pipeline, const std::array<uint32_t, 3> &groups, const Push &push) {
    return secondsOfCommands([&] {
        // The fill of a new buffer was waited for; only its visibility is left.
        VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT};
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                             nullptr);
        vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
        vkCmdPushConstants(commands_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
        vkCmdDispatch(commands_, groups[0], groups[1], groups[2]);
    });
}

double VulkanDevice::secondsToCopy(const Buffer &from, const Buffer &to) {
    return secondsOfCommands([&] {
        const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                                      VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                             nullptr);
        const VkBufferCopy region{0, 0, std::min(from.bytes, to.bytes)};
        vkCmdCopyBuffer(commands_, from.buffer, to.buffer, 1, &region);
    });
}

} // namespace vkattn::bench
