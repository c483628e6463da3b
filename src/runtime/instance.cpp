#include "runtime/instance.hpp"

#include "runtime/loader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vkattn {
namespace {

constexpr const char *validationLayer = "VK_LAYER_KHRONOS_validation";

bool contains(const std::vector<VkExtensionProperties> &list, const char *name) {
    return std::any_of(list.begin(), list.end(), [&](const VkExtensionProperties &e) { return std::strcmp(e.extensionName, name) == 0; });
}

std::vector<VkExtensionProperties> instanceExtensions(PFN_vkGetInstanceProcAddr get, const char *layer) {
    const auto enumerate =
        reinterpret_cast<PFN_vkEnumerateInstanceExtensionProperties>(get(nullptr, "vkEnumerateInstanceExtensionProperties"));
    uint32_t count = 0;
    if (!enumerate || enumerate(layer, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<VkExtensionProperties> list(count);
    if (enumerate(layer, &count, list.data()) < 0) return {};
    list.resize(count);
    return list;
}

VKAPI_ATTR VkBool32 VKAPI_CALL onMessage(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT *data, void *log) {
    const auto &callback = *static_cast<const std::function<void(const char *)> *>(log);
    // Newer layers leave the name of the rule out of the text.
    const std::string rule = data->pMessageIdName ? data->pMessageIdName : "";
    const bool named = std::strstr(data->pMessage, rule.c_str()) != nullptr;
    if (callback) callback(named ? data->pMessage : (rule + ": " + data->pMessage).c_str());
    return VK_FALSE;
}

DeviceType typeOf(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return DeviceType::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return DeviceType::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return DeviceType::virtualGpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return DeviceType::cpu;
    default:
        return DeviceType::other;
    }
}

// Returns the rank of a device type, best first.
int rank(DeviceType type) {
    switch (type) {
    case DeviceType::discrete:
        return 0;
    case DeviceType::integrated:
        return 1;
    case DeviceType::virtualGpu:
        return 2;
    case DeviceType::other:
        return 3;
    case DeviceType::cpu:
        break;
    }
    return 4;
}

std::string versionText(uint32_t version) {
    return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) + "." +
           std::to_string(VK_API_VERSION_PATCH(version));
}

} // namespace

const char *deviceTypeName(DeviceType type) {
    switch (type) {
    case DeviceType::discrete:
        return "discrete GPU";
    case DeviceType::integrated:
        return "integrated GPU";
    case DeviceType::virtualGpu:
        return "virtual GPU";
    case DeviceType::cpu:
        return "CPU";
    case DeviceType::other:
        break;
    }
    return "other";
}

bool InstanceTable::load(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
    getInstanceProcAddr = get;
#define VKATTN_LOAD(name)                                                                                                                  \
    name = reinterpret_cast<PFN_vk##name>(get(instance, "vk" #name));                                                                      \
    if (!name) return false;
    VKATTN_INSTANCE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
    const auto either = [&](const char *core, const char *extension) {
        const PFN_vkVoidFunction function = get(instance, core);
        return function ? function : get(instance, extension);
    };
    GetPhysicalDeviceProperties2 =
        reinterpret_cast<PFN_vkGetPhysicalDeviceProperties2>(either("vkGetPhysicalDeviceProperties2", "vkGetPhysicalDeviceProperties2KHR"));
    GetPhysicalDeviceFeatures2 =
        reinterpret_cast<PFN_vkGetPhysicalDeviceFeatures2>(either("vkGetPhysicalDeviceFeatures2", "vkGetPhysicalDeviceFeatures2KHR"));
    return true;
}

bool RuntimeDeviceTable::load(PFN_vkGetDeviceProcAddr get, VkDevice device) {
#define VKATTN_LOAD(name)                                                                                                                  \
    name = reinterpret_cast<PFN_vk##name>(get(device, "vk" #name));                                                                        \
    if (!name) return false;
    VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
    return true;
}

std::string failureText(const char *call, VkResult result) {
    static constexpr struct {
        VkResult result;
        const char *name;
    } names[] = {{VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY"},
                 {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY"},
                 {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED"},
                 {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST"},
                 {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED"},
                 {VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT"},
                 {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT"},
                 {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT"},
                 {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER"},
                 {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS"},
                 {VK_ERROR_FRAGMENTATION, "VK_ERROR_FRAGMENTATION"},
                 {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN"}};
    for (const auto &entry : names)
        if (entry.result == result) return std::string(call) + " failed: " + entry.name;
    return std::string(call) + " failed: VkResult " + std::to_string(static_cast<int>(result));
}

std::unique_ptr<Instance> Instance::create(const RuntimeOptions &options, std::string &why) {
    std::unique_ptr<Instance> instance(new Instance);
    instance->log_ = options.log;
    if (!instance->makeInstance(options, why) || !instance->findDevices(why)) return nullptr;
    return instance;
}

bool Instance::makeInstance(const RuntimeOptions &options, std::string &why) {
    PFN_vkGetInstanceProcAddr get = options.getInstanceProcAddr;
    if (!get) {
        // The loader is found once: volk's own state is not safe for several threads.
        static const PFN_vkGetInstanceProcAddr loader = vkattnRuntimeFindLoader();
        get = loader;
        if (!get) {
            why = "no Vulkan loader was found (libvulkan.so.1; package libvulkan1 on Debian)";
            return false;
        }
    }
    const auto createInstance = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
    if (!createInstance) {
        why = "the Vulkan loader does not know vkCreateInstance";
        return false;
    }
    const auto enumerateVersion = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(nullptr, "vkEnumerateInstanceVersion"));
    uint32_t loaderVersion = VK_API_VERSION_1_0;
    if (enumerateVersion)
        if (const VkResult r = enumerateVersion(&loaderVersion)) {
            why = failureText("vkEnumerateInstanceVersion", r);
            return false;
        }
    // Modules with VK_NV_cooperative_matrix2 are SPIR-V 1.6.
    apiVersion_ = std::min(loaderVersion, VK_API_VERSION_1_3);

    std::vector<const char *> extensions, layers;
    const std::vector<VkExtensionProperties> listed = instanceExtensions(get, nullptr);
    VkInstanceCreateFlags flags = 0;
    if (contains(listed, "VK_KHR_get_physical_device_properties2")) extensions.push_back("VK_KHR_get_physical_device_properties2");
    // MoltenVK is listed only to instances that ask for portability.
    if (contains(listed, "VK_KHR_portability_enumeration")) {
        extensions.push_back("VK_KHR_portability_enumeration");
        flags |= 1; // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
    }
    const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT features{};
    features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    features.enabledValidationFeatureCount = 1;
    features.pEnabledValidationFeatures = enabled;
    if (options.validation) {
        const std::vector<VkExtensionProperties> ofLayer = instanceExtensions(get, validationLayer);
        if (contains(ofLayer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME)) {
            layers.push_back(validationLayer);
            extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
            extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
        } else {
            why = std::string(validationLayer) + " was asked for and is not installed (package vulkan-validationlayers on Debian)";
            return false;
        }
    }

    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pEngineName = "vkattn";
    application.engineVersion = vkattnVersion();
    application.apiVersion = apiVersion_;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pNext = layers.empty() ? nullptr : &features;
    info.flags = flags;
    info.pApplicationInfo = &application;
    info.enabledLayerCount = static_cast<uint32_t>(layers.size());
    info.ppEnabledLayerNames = layers.data();
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    if (const VkResult r = createInstance(&info, nullptr, &instance_)) {
        instance_ = VK_NULL_HANDLE;
        why = r == VK_ERROR_INCOMPATIBLE_DRIVER ? "no Vulkan driver was found (VK_ERROR_INCOMPATIBLE_DRIVER)"
                                                : failureText("vkCreateInstance", r);
        return false;
    }
    if (!table_.load(get, instance_)) {
        why = "the Vulkan loader lacks a Vulkan 1.0 function";
        return false;
    }
    if (!layers.empty()) {
        const auto createMessenger = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(get(instance_, "vkCreateDebugUtilsMessengerEXT"));
        VkDebugUtilsMessengerCreateInfoEXT messengerInfo{};
        messengerInfo.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
        messengerInfo.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
        messengerInfo.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
        messengerInfo.pfnUserCallback = onMessage;
        messengerInfo.pUserData = &log_;
        if (!createMessenger || createMessenger(instance_, &messengerInfo, nullptr, &messenger_) != VK_SUCCESS) messenger_ = VK_NULL_HANDLE;
    }
    return true;
}

Instance::~Instance() {
    if (!instance_) return;
    if (messenger_) {
        const auto destroyMessenger =
            reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(table_.getInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
        if (destroyMessenger) destroyMessenger(instance_, messenger_, nullptr);
    }
    if (table_.DestroyInstance) table_.DestroyInstance(instance_, nullptr);
}

bool Instance::findDevices(std::string &why) {
    uint32_t count = 0;
    std::vector<VkPhysicalDevice> handles;
    VkResult r = table_.EnumeratePhysicalDevices(instance_, &count, nullptr);
    if (r == VK_SUCCESS) {
        handles.resize(count);
        r = table_.EnumeratePhysicalDevices(instance_, &count, handles.data());
    }
    if (r < 0) {
        why = failureText("vkEnumeratePhysicalDevices", r);
        return false;
    }
    handles.resize(count);
    for (const VkPhysicalDevice handle : handles) found_.push_back({handle, describe(handle)});
    std::stable_sort(found_.begin(), found_.end(), [](const Found &a, const Found &b) { return rank(a.info.type) < rank(b.info.type); });
    for (size_t n = 0; n < found_.size(); ++n) found_[n].info.index = static_cast<uint32_t>(n);
    if (found_.empty()) why = "the Vulkan drivers that were found have no device";
    return !found_.empty();
}

std::vector<VkExtensionProperties> Instance::listedExtensions(VkPhysicalDevice device) const {
    uint32_t count = 0;
    if (table_.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<VkExtensionProperties> list(count);
    if (table_.EnumerateDeviceExtensionProperties(device, nullptr, &count, list.data()) < 0) return {};
    list.resize(count);
    return list;
}

vkattn_physical_device Instance::named(VkPhysicalDevice device) const {
    return physicalDevice(table_.getInstanceProcAddr, instance_, device, apiVersion_);
}

std::vector<const char *> Instance::deviceExtensions(VkPhysicalDevice device) const {
    const std::vector<VkExtensionProperties> listed = listedExtensions(device);
    std::vector<const char *> names;
    for (const vkattn_need need : {VKATTN_REQUIRED, VKATTN_HELPFUL}) {
        const size_t before = names.size();
        uint32_t count = 0;
        if (vkattn::deviceExtensions(named(device), need, count)) continue;
        names.resize(before + count);
        if (vkattn::deviceExtensions(named(device), need, count, {names.data() + before, count}))
            // No extension is listed here: everything works without the helpful ones, and the
            // context says which are required.
            count = 0;
        names.resize(before + count);
    }
    // This extension must be enabled where the device lists it.
    if (contains(listed, "VK_KHR_portability_subset")) names.push_back("VK_KHR_portability_subset");
    return names;
}

bool Instance::deviceFeatures(VkPhysicalDevice device, const std::vector<const char *> &extensions, DeviceFeatures &features) const {
    return patchFeatures(named(device), extensions, features.chain, features.room) == VKATTN_OK && features.chain.pNext != nullptr;
}

DeviceInfo Instance::describe(VkPhysicalDevice device) const {
    DeviceInfo info;
    VkPhysicalDeviceProperties properties;
    table_.GetPhysicalDeviceProperties(device, &properties);
    info.name = properties.deviceName;
    info.type = typeOf(properties.deviceType);
    info.vendorId = properties.vendorID;
    info.deviceId = properties.deviceID;
    info.apiVersion = properties.apiVersion;
    info.driver = versionText(properties.driverVersion);
    info.driverVersion = properties.driverVersion;
    std::copy(std::begin(properties.pipelineCacheUUID), std::end(properties.pipelineCacheUUID), info.pipelineCacheUuid.begin());

    VkPhysicalDeviceMemoryProperties memory;
    table_.GetPhysicalDeviceMemoryProperties(device, &memory);
    for (uint32_t n = 0; n < memory.memoryHeapCount; ++n)
        if (memory.memoryHeaps[n].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            info.deviceLocalBytes = std::max<uint64_t>(info.deviceLocalBytes, memory.memoryHeaps[n].size);
    info.maxAllocationBytes = info.deviceLocalBytes;
    uint32_t familyCount = 0;
    table_.GetPhysicalDeviceQueueFamilyProperties(device, &familyCount, nullptr);
    std::vector<VkQueueFamilyProperties> families(familyCount);
    table_.GetPhysicalDeviceQueueFamilyProperties(device, &familyCount, families.data());
    bool computeQueue = false;
    for (const VkQueueFamilyProperties &family : families)
        if (family.queueFlags & VK_QUEUE_COMPUTE_BIT) {
            computeQueue = true;
            info.timestamps |= family.timestampValidBits > 0 && properties.limits.timestampPeriod > 0;
        }

    const uint32_t usable = std::min(apiVersion_, properties.apiVersion);
    if (usable >= VK_API_VERSION_1_2 && table_.GetPhysicalDeviceProperties2 && table_.GetPhysicalDeviceFeatures2) {
        VkPhysicalDeviceDriverProperties driver{};
        driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
        VkPhysicalDeviceSubgroupProperties subgroup{};
        subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
        subgroup.pNext = &driver;
        VkPhysicalDeviceMaintenance3Properties allocation{};
        allocation.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
        allocation.pNext = &subgroup;
        VkPhysicalDeviceProperties2 properties2{};
        properties2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
        properties2.pNext = &allocation;
        table_.GetPhysicalDeviceProperties2(device, &properties2);
        info.driver = std::string(driver.driverName) + " " + driver.driverInfo;
        info.subgroupSize = subgroup.subgroupSize;
        info.maxAllocationBytes = allocation.maxMemoryAllocationSize;

        VkPhysicalDevice16BitStorageFeatures storage{};
        storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
        VkPhysicalDeviceShaderFloat16Int8Features float16{};
        float16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
        float16.pNext = &storage;
        VkPhysicalDeviceFeatures2 features{};
        features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
        features.pNext = &float16;
        table_.GetPhysicalDeviceFeatures2(device, &features);
        info.storage16Bit = storage.storageBuffer16BitAccess;
        info.shaderFloat16 = float16.shaderFloat16;
    }

    const std::vector<const char *> extensions = deviceExtensions(device);
    DeviceFeatures features;
    const bool patched = deviceFeatures(device, extensions, features);
    vkattn_diagnostic why{};
    if (physicalDeviceCaps(named(device), extensions, patched ? &features.chain : nullptr, info.caps, &why) != VKATTN_OK) {
        info.kernels.push_back({vkattnKernelName(VKATTN_KERNEL_STAGED), false, why.message});
        return info;
    }
    info.cooperativeMatrix = info.caps.matrixShapeCount > 0;
    for (const vkattn_kernel kernel : KernelList()) {
        why = {};
        const vkattn_result r = vkattnKernelSupport(&info.caps, kernel, &why);
        const char *name = vkattnKernelName(kernel);
        if (!computeQueue)
            info.kernels.push_back({name, false, "the device has no queue family with compute"});
        else
            info.kernels.push_back({name, r == VKATTN_OK, why.message});
    }
    return info;
}

} // namespace vkattn
