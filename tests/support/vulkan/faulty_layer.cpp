// A Vulkan layer that makes any driver a faulty one, for tests of what then becomes of
// `vkattn conform`. VKATTN_TEST_LAYER says how, in words parted by spaces:
//   at=CALL        CreateInstance, EnumeratePhysicalDevices, CreateDevice or QueueSubmit
//   do=FAULT       crash, hang, exit, garbage (on every file that is open, then on), lost, drop
//                  (commands are not executed), fail
//   nth=N          not before the N-th such call of a process
//   groups=N       QueueSubmit: only where a dispatch of at least N workgroups was recorded since
//                  the one before
//   device=N       CreateDevice and QueueSubmit: only of the N-th device
//   drivers=TEXT   only where VK_DRIVER_FILES has this in it, or is unset
//   once=FILE      only if FILE does not exist; then it does
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct Rule {
    std::string at, what, drivers, once;
    uint64_t nth = 0, groups = 0;
    int64_t device = -1;
};

const Rule &rule() {
    static const Rule parsed = [] {
        Rule made;
        const char *text = std::getenv("VKATTN_TEST_LAYER");
        std::istringstream words(text ? text : "");
        for (std::string word; words >> word;) {
            const size_t equals = word.find('=');
            const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
            if (key == "at") made.at = value;
            if (key == "do") made.what = value;
            if (key == "drivers") made.drivers = value;
            if (key == "once") made.once = value;
            if (key == "nth") made.nth = std::stoull(value);
            if (key == "groups") made.groups = std::stoull(value);
            if (key == "device") made.device = std::stoll(value);
        }
        return made;
    }();
    return parsed;
}

bool happensNow(const char *call, int64_t device) {
    static std::atomic<uint64_t> calls{0};
    const Rule &r = rule();
    if (r.at != call || ++calls < r.nth || (r.device >= 0 && device != r.device)) return false;
    const char *drivers = std::getenv("VK_DRIVER_FILES");
    if (!r.drivers.empty() && drivers && std::strstr(drivers, r.drivers.c_str()) == nullptr) return false;
    if (r.once.empty()) return true;
    const int file = open(r.once.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file >= 0) close(file);
    return file >= 0;
}

enum class Answer { goOn, lost, drop, fail };

Answer misbehave() {
    const std::string &what = rule().what;
    std::fprintf(stderr, "faulty layer: %s at %s\n", what.c_str(), rule().at.c_str());
    std::fflush(stderr);
    if (what == "crash") {
        std::signal(SIGSEGV, SIG_DFL);
        std::raise(SIGSEGV);
    }
    if (what == "exit") _exit(3);
    while (what == "hang") pause();
    for (int file = 3; what == "garbage" && file < 64; file++)
        if (fcntl(file, F_GETFD) >= 0) static_cast<void>(!write(file, "\x01\xff no message\n", 14));
    return what == "lost" ? Answer::lost : what == "drop" ? Answer::drop : what == "fail" ? Answer::fail : Answer::goOn;
}

struct InstanceTable {
    VkInstance instance;
    PFN_vkGetInstanceProcAddr getProcAddr;
    // A later question would return the function of the whole chain.
    PFN_vkEnumeratePhysicalDevices enumerate;
    std::vector<VkPhysicalDevice> devices;
};
struct DeviceTable {
    PFN_vkGetDeviceProcAddr getProcAddr;
    PFN_vkQueueSubmit submit;
    PFN_vkCmdDispatch dispatch;
    int64_t number = -1;
    uint64_t mostGroups = 0;
};

// The layer below asks this layer for functions during the call.
std::recursive_mutex lock;
// Keyed by the loader's table, which the handles of an instance or device share.
std::map<void *, InstanceTable> instances;
std::map<void *, DeviceTable> devices;

template <class Handle> void *keyOf(Handle handle) {
    void *key;
    std::memcpy(&key, reinterpret_cast<const void *>(handle), sizeof key);
    return key;
}

// The loader's link to what lies below this layer.
template <class LayerInfo> LayerInfo *linkOf(const void *next, VkStructureType type) {
    for (auto *each = static_cast<const VkBaseInStructure *>(next); each; each = each->pNext) {
        auto *info = reinterpret_cast<LayerInfo *>(const_cast<VkBaseInStructure *>(each));
        if (each->sType == type && info->function == VK_LAYER_LINK_INFO) return info;
    }
    return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL createInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *made) {
    if (happensNow("CreateInstance", -1) && misbehave() != Answer::goOn) return VK_ERROR_INITIALIZATION_FAILED;
    auto *link = linkOf<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    const PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(nullptr, "vkCreateInstance"));
    const VkResult result = create(info, allocator, made);
    const std::scoped_lock hold(lock);
    if (result == VK_SUCCESS)
        instances[keyOf(*made)] = {
            *made, next, reinterpret_cast<PFN_vkEnumeratePhysicalDevices>(next(*made, "vkEnumeratePhysicalDevices")), {}};
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL enumeratePhysicalDevices(VkInstance instance, uint32_t *count, VkPhysicalDevice *list) {
    if (happensNow("EnumeratePhysicalDevices", -1) && misbehave() != Answer::goOn) return VK_ERROR_INITIALIZATION_FAILED;
    const std::scoped_lock hold(lock);
    InstanceTable &table = instances[keyOf(instance)];
    const VkResult result = table.enumerate(instance, count, list);
    if (list && result >= 0) table.devices.assign(list, list + *count);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL createDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                            const VkAllocationCallbacks *allocator, VkDevice *made) {
    const std::scoped_lock hold(lock);
    const InstanceTable &table = instances[keyOf(physical)];
    int64_t number = -1;
    for (size_t n = 0; n < table.devices.size(); n++)
        if (table.devices[n] == physical) number = static_cast<int64_t>(n);
    if (happensNow("CreateDevice", number) && misbehave() != Answer::goOn) return VK_ERROR_INITIALIZATION_FAILED;
    auto *link = linkOf<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    const PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    const PFN_vkGetDeviceProcAddr nextOfDevice = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create = reinterpret_cast<PFN_vkCreateDevice>(next(table.instance, "vkCreateDevice"));
    const VkResult result = create(physical, info, allocator, made);
    if (result == VK_SUCCESS)
        devices[keyOf(*made)] = {nextOfDevice, reinterpret_cast<PFN_vkQueueSubmit>(nextOfDevice(*made, "vkQueueSubmit")),
                                 reinterpret_cast<PFN_vkCmdDispatch>(nextOfDevice(*made, "vkCmdDispatch")), number};
    return result;
}

template <class Handle> DeviceTable &tableOf(Handle handle) {
    const std::scoped_lock hold(lock);
    return devices[keyOf(handle)];
}

VKAPI_ATTR void VKAPI_CALL cmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
    DeviceTable &table = tableOf(commands);
    table.mostGroups = std::max(table.mostGroups, uint64_t{x} * y * z);
    table.dispatch(commands, x, y, z);
}

VKAPI_ATTR VkResult VKAPI_CALL queueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
    DeviceTable &table = tableOf(queue);
    const bool large = table.mostGroups >= rule().groups;
    table.mostGroups = 0;
    const Answer answer = large && happensNow("QueueSubmit", table.number) ? misbehave() : Answer::goOn;
    if (answer == Answer::lost) return VK_ERROR_DEVICE_LOST;
    if (answer == Answer::fail) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (answer == Answer::drop) return table.submit(queue, 0, nullptr, fence);
    return table.submit(queue, count, submits, fence);
}

PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name);
PFN_vkVoidFunction VKAPI_CALL getInstanceProcAddr(VkInstance instance, const char *name);

PFN_vkVoidFunction ownFunction(const char *name) {
    static const std::map<std::string, PFN_vkVoidFunction> own = {
        {"vkGetInstanceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(getInstanceProcAddr)},
        {"vkGetDeviceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(getDeviceProcAddr)},
        {"vkCreateInstance", reinterpret_cast<PFN_vkVoidFunction>(createInstance)},
        {"vkEnumeratePhysicalDevices", reinterpret_cast<PFN_vkVoidFunction>(enumeratePhysicalDevices)},
        {"vkCreateDevice", reinterpret_cast<PFN_vkVoidFunction>(createDevice)},
        {"vkCmdDispatch", reinterpret_cast<PFN_vkVoidFunction>(cmdDispatch)},
        {"vkQueueSubmit", reinterpret_cast<PFN_vkVoidFunction>(queueSubmit)}};
    const auto found = own.find(name);
    return found == own.end() ? nullptr : found->second;
}

PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name) {
    if (const PFN_vkVoidFunction own = ownFunction(name)) return own;
    return tableOf(device).getProcAddr(device, name);
}

PFN_vkVoidFunction VKAPI_CALL getInstanceProcAddr(VkInstance instance, const char *name) {
    if (const PFN_vkVoidFunction own = ownFunction(name)) return own;
    if (!instance) return nullptr;
    const std::scoped_lock hold(lock);
    return instances[keyOf(instance)].getProcAddr(instance, name);
}

} // namespace

extern "C" __attribute__((visibility("default"))) VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface) {
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = getInstanceProcAddr;
    interface->pfnGetDeviceProcAddr = getDeviceProcAddr;
    interface->pfnGetPhysicalDeviceProcAddr = nullptr;
    return VK_SUCCESS;
}
