#include "support/vulkan/faulty_vulkan.hpp"

#include "core/device/newer_vulkan.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance, const char *);

namespace vkattn::test {

Fault fault;
Ledger ledger;

namespace {

constexpr VkResult oomHost = VK_ERROR_OUT_OF_HOST_MEMORY, oomDevice = VK_ERROR_OUT_OF_DEVICE_MEMORY, lostDevice = VK_ERROR_DEVICE_LOST,
                   unknown = VK_ERROR_UNKNOWN; // which any command may return

enum class Effect { none, makes, destroys };

// Functions that cannot fail: X(name, effect). Others: Y(name, effect, errors...).
#define VKATTN_SOUND_FUNCTIONS(X)                                                                                                          \
    X(DestroyInstance, destroys)                                                                                                           \
    X(GetPhysicalDeviceProperties, none)                                                                                                   \
    X(GetPhysicalDeviceProperties2, none)                                                                                                  \
    X(GetPhysicalDeviceFeatures, none)                                                                                                     \
    X(GetPhysicalDeviceFeatures2, none)                                                                                                    \
    X(GetPhysicalDeviceMemoryProperties, none)                                                                                             \
    X(GetPhysicalDeviceQueueFamilyProperties, none)                                                                                        \
    X(GetDeviceQueue, none)                                                                                                                \
    X(DestroyDevice, destroys)                                                                                                             \
    X(DestroyCommandPool, destroys)                                                                                                        \
    X(DestroyFence, destroys)                                                                                                              \
    X(DestroyQueryPool, destroys)                                                                                                          \
    X(DestroyBuffer, destroys)                                                                                                             \
    X(FreeMemory, destroys)                                                                                                                \
    X(GetBufferMemoryRequirements, none)                                                                                                   \
    X(DestroyDescriptorPool, destroys)                                                                                                     \
    X(DestroyDescriptorSetLayout, destroys)                                                                                                \
    X(DestroyPipelineLayout, destroys)                                                                                                     \
    X(DestroyShaderModule, destroys)                                                                                                       \
    X(DestroyPipelineCache, destroys)                                                                                                      \
    X(DestroyPipeline, destroys)                                                                                                           \
    X(DestroyDebugUtilsMessengerEXT, destroys)                                                                                             \
    X(UpdateDescriptorSets, none)                                                                                                          \
    X(CmdBindPipeline, none)                                                                                                               \
    X(CmdBindDescriptorSets, none)                                                                                                         \
    X(CmdPushConstants, none)                                                                                                              \
    X(CmdPushDescriptorSetKHR, none)                                                                                                       \
    X(CmdDispatch, none)                                                                                                                   \
    X(CmdPipelineBarrier, none)                                                                                                            \
    X(CmdCopyBuffer, none)                                                                                                                 \
    X(CmdResetQueryPool, none)                                                                                                             \
    X(CmdWriteTimestamp, none)                                                                                                             \
    X(CmdBeginDebugUtilsLabelEXT, none)                                                                                                    \
    X(CmdEndDebugUtilsLabelEXT, none)
#define VKATTN_FAILING_FUNCTIONS(Y)                                                                                                        \
    Y(CreateInstance, makes, oomHost, oomDevice, VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_LAYER_NOT_PRESENT,                               \
      VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_INCOMPATIBLE_DRIVER)                                                                        \
    Y(EnumerateInstanceVersion, none, oomHost)                                                                                             \
    Y(EnumerateInstanceExtensionProperties, none, oomHost, oomDevice, VK_ERROR_LAYER_NOT_PRESENT)                                          \
    Y(EnumeratePhysicalDevices, none, oomHost, oomDevice, VK_ERROR_INITIALIZATION_FAILED)                                                  \
    Y(EnumerateDeviceExtensionProperties, none, oomHost, oomDevice, VK_ERROR_LAYER_NOT_PRESENT)                                            \
    Y(CreateDevice, makes, oomHost, oomDevice, VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_EXTENSION_NOT_PRESENT,                             \
      VK_ERROR_FEATURE_NOT_PRESENT, VK_ERROR_TOO_MANY_OBJECTS, lostDevice)                                                                 \
    Y(CreateDebugUtilsMessengerEXT, makes, oomHost)                                                                                        \
    Y(SetDebugUtilsObjectNameEXT, none, oomHost, oomDevice)                                                                                \
    Y(DeviceWaitIdle, none, oomHost, oomDevice, lostDevice)                                                                                \
    Y(CreateCommandPool, makes, oomHost, oomDevice)                                                                                        \
    Y(ResetCommandPool, none, oomHost, oomDevice)                                                                                          \
    Y(AllocateCommandBuffers, none, oomHost, oomDevice)                                                                                    \
    Y(BeginCommandBuffer, none, oomHost, oomDevice)                                                                                        \
    Y(EndCommandBuffer, none, oomHost, oomDevice)                                                                                          \
    Y(CreateFence, makes, oomHost, oomDevice)                                                                                              \
    Y(ResetFences, none, oomHost, oomDevice)                                                                                               \
    Y(WaitForFences, none, oomHost, oomDevice, lostDevice)                                                                                 \
    Y(QueueSubmit, none, oomHost, oomDevice, lostDevice)                                                                                   \
    Y(CreateQueryPool, makes, oomHost, oomDevice)                                                                                          \
    Y(GetQueryPoolResults, none, oomHost, oomDevice, lostDevice)                                                                           \
    Y(CreateBuffer, makes, oomHost, oomDevice)                                                                                             \
    Y(AllocateMemory, makes, oomHost, oomDevice, VK_ERROR_TOO_MANY_OBJECTS)                                                                \
    Y(BindBufferMemory, none, oomHost, oomDevice)                                                                                          \
    Y(MapMemory, none, oomHost, oomDevice, VK_ERROR_MEMORY_MAP_FAILED)                                                                     \
    Y(CreateDescriptorPool, makes, oomHost, oomDevice, VK_ERROR_FRAGMENTATION)                                                             \
    Y(ResetDescriptorPool, none, oomHost, oomDevice)                                                                                       \
    Y(AllocateDescriptorSets, none, oomHost, oomDevice, VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY)                             \
    Y(CreateDescriptorSetLayout, makes, oomHost, oomDevice)                                                                                \
    Y(CreatePipelineLayout, makes, oomHost, oomDevice)                                                                                     \
    Y(CreateShaderModule, makes, oomHost, oomDevice, VK_ERROR_INVALID_SHADER_NV)                                                           \
    Y(CreateComputePipelines, makes, oomHost, oomDevice, VK_ERROR_INVALID_SHADER_NV)                                                       \
    Y(CreatePipelineCache, makes, oomHost, oomDevice)                                                                                      \
    Y(MergePipelineCaches, none, oomHost, oomDevice)                                                                                       \
    Y(GetPipelineCacheData, none, oomHost, oomDevice)                                                                                      \
    Y(GetPhysicalDeviceCooperativeMatrixPropertiesKHR, none, oomHost, oomDevice)                                                           \
    Y(GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV, none, oomHost, oomDevice)

enum class Function {
#define VKATTN_SOUND(name, effect) name,
#define VKATTN_FAILING(name, effect, ...) name,
    VKATTN_SOUND_FUNCTIONS(VKATTN_SOUND) VKATTN_FAILING_FUNCTIONS(VKATTN_FAILING)
#undef VKATTN_SOUND
#undef VKATTN_FAILING
};

struct Row {
    const char *name;
    std::vector<VkResult> errors;
};
const Row &rowOf(Function function) {
    static const Row rows[] = {
#define VKATTN_SOUND(name, effect) {"vk" #name, {}},
#define VKATTN_FAILING(name, effect, ...) {"vk" #name, {__VA_ARGS__, unknown}},
        VKATTN_SOUND_FUNCTIONS(VKATTN_SOUND) VKATTN_FAILING_FUNCTIONS(VKATTN_FAILING)
#undef VKATTN_SOUND
#undef VKATTN_FAILING
    };
    return rows[static_cast<size_t>(function)];
}
const Row *findRow(const char *name) {
    static const std::map<std::string, const Row *> rows = [] {
        std::map<std::string, const Row *> map;
        const auto add = [&](Function function) { map[rowOf(function).name] = &rowOf(function); };
#define VKATTN_SOUND(name, effect) add(Function::name);
#define VKATTN_FAILING(name, effect, ...) add(Function::name);
        VKATTN_SOUND_FUNCTIONS(VKATTN_SOUND)
        VKATTN_FAILING_FUNCTIONS(VKATTN_FAILING)
#undef VKATTN_SOUND
#undef VKATTN_FAILING
        return map;
    }();
    const auto found = rows.find(name);
    return found == rows.end() ? nullptr : found->second;
}

// Objects with an owner who must destroy them. Command buffers and descriptor sets go with their
// pools.
template <class T> constexpr bool isObject = false;
#define VKATTN_OBJECT(type) template <> constexpr bool isObject<type> = true;
VKATTN_OBJECT(VkInstance)
VKATTN_OBJECT(VkDevice)
VKATTN_OBJECT(VkDebugUtilsMessengerEXT)
VKATTN_OBJECT(VkCommandPool)
VKATTN_OBJECT(VkFence)
VKATTN_OBJECT(VkQueryPool)
VKATTN_OBJECT(VkBuffer)
VKATTN_OBJECT(VkDeviceMemory)
VKATTN_OBJECT(VkDescriptorPool)
VKATTN_OBJECT(VkDescriptorSetLayout)
VKATTN_OBJECT(VkPipelineLayout)
VKATTN_OBJECT(VkShaderModule)
VKATTN_OBJECT(VkPipelineCache)
VKATTN_OBJECT(VkPipeline)
#undef VKATTN_OBJECT
template <class T> constexpr bool isParent = std::is_same_v<T, VkInstance> || std::is_same_v<T, VkDevice>;

template <class T> std::pair<std::type_index, uint64_t> keyOf(T handle) {
    return {std::type_index(typeid(T)), reinterpret_cast<uint64_t>(handle)};
}

// A test's own host made its instance and device behind this wrapper's back: then these are not
// looked at.
template <class T> bool lives(T handle) {
    if (ledger.live.contains(keyOf(handle))) return true;
    if constexpr (!isParent<T>) return false;
    for (const auto &[key, maker] : ledger.live)
        if (key.first == std::type_index(typeid(T))) return false;
    return true;
}

template <class T> void checkUse(const char *function, T argument) {
    if constexpr (isObject<T>)
        if (argument && !lives(argument)) ledger.errors.push_back(std::string(function) + " uses an object that does not live");
}

// A call that fails leaves undefined values behind, except for pipelines, command buffers and
// descriptor sets, which are then NULL.
template <class T> void spoil(T argument) {
    if constexpr (std::is_pointer_v<T> && !isObject<T>) {
        using To = std::remove_pointer_t<T>;
        if (!argument) return;
        if constexpr (std::is_same_v<To, VkPipeline> || std::is_same_v<To, VkCommandBuffer> || std::is_same_v<To, VkDescriptorSet>)
            *argument = VK_NULL_HANDLE;
        else if constexpr (isObject<To> || std::is_same_v<To, void *>)
            *argument = reinterpret_cast<To>(uintptr_t{0xdead0});
        else if constexpr (std::is_same_v<To, uint32_t> || std::is_same_v<To, size_t>)
            *argument = 0x7fffffff;
    }
}

bool strikesByName(const char *function) {
    if (fault.function != function || fault.calls == 0) return false;
    if (fault.skip-- > 0) return false;
    if (fault.calls > 0) --fault.calls;
    return true;
}

bool mayReturn(const Row &row, VkResult error) {
    for (const VkResult each : row.errors)
        if (each == error) return true;
    return false;
}

VkResult strike(Function function) {
    const Row &row = rowOf(function);
    const uint64_t number = ledger.calls.size();
    ledger.calls.push_back({row.name, ledger.phase});
    if (strikesByName(row.name)) return fault.result;
    if (number == ledger.failAt) {
        ledger.struck = true;
        ledger.lost = ledger.lost || (ledger.failWith == lostDevice && function != Function::CreateDevice);
        return ledger.failWith;
    }
    return ledger.lost && function != Function::CreateDevice && mayReturn(row, lostDevice) ? lostDevice : VK_SUCCESS;
}

struct LastMemory {
    VkDeviceMemory handle = VK_NULL_HANDLE;
    VkDeviceSize bytes = 0;
    unsigned char *mapped = nullptr;
};
LastMemory lastMemory;

// void main() {}, of one invocation.
constexpr uint32_t emptyShader[] = {
    0x07230203,
    0x00010000,
    0,
    5,
    0, // ids below 5
    2u << 16 | 17,
    1, // OpCapability Shader
    3u << 16 | 14,
    0,
    1, // OpMemoryModel Logical GLSL450
    5u << 16 | 15,
    5,
    1,
    0x6e69616d,
    0, // OpEntryPoint GLCompute %1 "main"
    6u << 16 | 16,
    1,
    17,
    1,
    1,
    1, // OpExecutionMode %1 LocalSize 1 1 1
    2u << 16 | 19,
    2, // %2 = OpTypeVoid
    3u << 16 | 33,
    3,
    2, // %3 = OpTypeFunction %2
    5u << 16 | 54,
    2,
    1,
    0,
    3, // %1 = OpFunction
    2u << 16 | 248,
    4,
    1u << 16 | 253,
    1u << 16 | 56, // %4 = OpLabel, OpReturn, OpFunctionEnd
};

// The arguments that the driver is given instead of the library's.
template <Function function, class Next, class... Arguments> VkResult pass(Next next, Arguments... arguments) {
    if constexpr (function == Function::CreateShaderModule) {
        auto list = std::tuple<Arguments...>(arguments...);
        VkShaderModuleCreateInfo info = *std::get<1>(list);
        if (fault.emptyShaders) info.codeSize = sizeof emptyShader, info.pCode = emptyShader;
        return next(std::get<0>(list), &info, std::get<2>(list), std::get<3>(list));
    } else {
        return next(arguments...);
    }
}

// After the driver has been.
void after(std::integral_constant<Function, Function::AllocateMemory>, VkDevice, const VkMemoryAllocateInfo *info,
           const VkAllocationCallbacks *, VkDeviceMemory *memory) {
    lastMemory = {*memory, info->allocationSize, nullptr};
}
void after(std::integral_constant<Function, Function::MapMemory>, VkDevice, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize,
           VkMemoryMapFlags, void **mapped) {
    if (memory == lastMemory.handle && offset == 0) lastMemory.mapped = static_cast<unsigned char *>(*mapped);
}
void after(std::integral_constant<Function, Function::WaitForFences>, VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t) {
    if (!fault.corrupt || !lastMemory.mapped) return;
    fault.corrupt = false;
    const float wrong = 0.75f;
    for (VkDeviceSize at = 0; at + 4 <= lastMemory.bytes; at += 61 * 4) std::memcpy(lastMemory.mapped + at, &wrong, 4);
}
void pretend(VkPhysicalDeviceProperties &properties) {
    if (fault.pretendDiscrete) properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}
void after(std::integral_constant<Function, Function::GetPhysicalDeviceProperties>, VkPhysicalDevice, VkPhysicalDeviceProperties *out) {
    pretend(*out);
}
void after(std::integral_constant<Function, Function::GetPhysicalDeviceProperties2>, VkPhysicalDevice, VkPhysicalDeviceProperties2 *out) {
    pretend(out->properties);
}
void hide(const char *extension, uint32_t count, VkExtensionProperties *list) {
    for (uint32_t n = 0; list && n < count; ++n)
        if (std::strcmp(list[n].extensionName, extension) == 0) std::strcpy(list[n].extensionName, "VK_TEST_hidden");
}
void after(std::integral_constant<Function, Function::EnumerateDeviceExtensionProperties>, VkPhysicalDevice, const char *, uint32_t *count,
           VkExtensionProperties *out) {
    if (fault.hidePushDescriptors) hide(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, *count, out);
}

// Drivers in software give sets from pools that have no descriptors left.
struct PoolRoom {
    uint32_t sets, descriptors;
};
std::map<VkDescriptorPool, PoolRoom> poolRooms;
std::map<VkDescriptorSetLayout, uint32_t> layoutDescriptors;
void after(std::integral_constant<Function, Function::CreateDescriptorSetLayout>, VkDevice, const VkDescriptorSetLayoutCreateInfo *info,
           const VkAllocationCallbacks *, VkDescriptorSetLayout *out) {
    layoutDescriptors[*out] = 0;
    for (uint32_t n = 0; n < info->bindingCount; ++n) layoutDescriptors[*out] += info->pBindings[n].descriptorCount;
}
void after(std::integral_constant<Function, Function::CreateDescriptorPool>, VkDevice, const VkDescriptorPoolCreateInfo *info,
           const VkAllocationCallbacks *, VkDescriptorPool *out) {
    PoolRoom room = {info->maxSets, 0};
    for (uint32_t n = 0; n < info->poolSizeCount; ++n) room.descriptors += info->pPoolSizes[n].descriptorCount;
    poolRooms[*out] = room;
    ledger.setsTaken = ledger.descriptorsTaken = 0;
}
void after(std::integral_constant<Function, Function::ResetDescriptorPool>, VkDevice, VkDescriptorPool, VkDescriptorPoolResetFlags) {
    ledger.setsTaken = ledger.descriptorsTaken = 0;
}
void after(std::integral_constant<Function, Function::AllocateDescriptorSets>, VkDevice, const VkDescriptorSetAllocateInfo *info,
           VkDescriptorSet *) {
    const auto room = poolRooms.find(info->descriptorPool);
    if (room == poolRooms.end()) return; // a test's own host made the object without this wrapper
    ledger.setsTaken += info->descriptorSetCount;
    for (uint32_t n = 0; n < info->descriptorSetCount; ++n) ledger.descriptorsTaken += layoutDescriptors[info->pSetLayouts[n]];
    if (ledger.setsTaken > room->second.sets || ledger.descriptorsTaken > room->second.descriptors)
        ledger.errors.push_back("vkAllocateDescriptorSets takes more than its pool has");
}
template <Function function, class... Arguments> void after(std::integral_constant<Function, function>, Arguments...) {}

// Drivers give a dead object's handle to the next object, and a test's own host makes its objects
// without these wrappers: its pool would be measured by the room of a pool that is gone.
void gone(VkDescriptorPool pool) {
    poolRooms.erase(pool);
}
void gone(VkDescriptorSetLayout layout) {
    layoutDescriptors.erase(layout);
}
template <class Handle> void gone(Handle) {}

// Returns false where the object does not exist.
template <Function function, class... Arguments> bool forget(Arguments... arguments) {
    constexpr size_t at = sizeof...(Arguments) - 2; // the allocator is last
    const auto handle = std::get<at>(std::tuple<Arguments...>(arguments...));
    if (!handle) return true;
    if (!ledger.live.erase(keyOf(handle))) {
        ledger.errors.push_back(std::string(rowOf(function).name) + " destroys an object that does not live");
        return false;
    }
    gone(handle);
    if constexpr (function == Function::DestroyDevice)
        for (const auto &[key, maker] : ledger.live)
            if (key.first != std::type_index(typeid(VkInstance)) && key.first != std::type_index(typeid(VkDebugUtilsMessengerEXT)))
                ledger.errors.push_back(std::string("the device is destroyed before what ") + maker + " made");
    return true;
}

template <Function function, class... Arguments> void remember(Arguments... arguments) {
    const auto out = std::get<sizeof...(Arguments) - 1>(std::tuple<Arguments...>(arguments...));
    ledger.live[keyOf(*out)] = rowOf(function).name;
    ++ledger.made;
}

// Of all that the wrappers write down. The driver is called without it.
std::mutex booksMutex;

template <Function function, Effect effect, class Pointer> struct Wrapper;
template <Function function, Effect effect, class... Arguments> struct Wrapper<function, effect, void(VKAPI_PTR *)(Arguments...)> {
    static inline void(VKAPI_PTR *next)(Arguments...) = nullptr;
    static VKAPI_ATTR void VKAPI_CALL call(Arguments... arguments) {
        {
            const std::lock_guard lock(booksMutex);
            if constexpr (effect != Effect::destroys) (checkUse(rowOf(function).name, arguments), ...);
            if constexpr (function == Function::CmdPipelineBarrier)
                if (fault.dropBarriers) return;
            if constexpr (effect == Effect::destroys)
                if (!forget<function>(arguments...)) return; // to go on would crash the driver
        }
        next(arguments...);
        const std::lock_guard lock(booksMutex);
        after(std::integral_constant<Function, function>{}, arguments...);
    }
};
template <Function function, Effect effect, class... Arguments> struct Wrapper<function, effect, VkResult(VKAPI_PTR *)(Arguments...)> {
    static inline VkResult(VKAPI_PTR *next)(Arguments...) = nullptr;
    static VKAPI_ATTR VkResult VKAPI_CALL call(Arguments... arguments) {
        VkResult failure = VK_SUCCESS;
        {
            const std::lock_guard lock(booksMutex);
            (checkUse(rowOf(function).name, arguments), ...);
            failure = strike(function);
        }
        if (failure) {
            // Nothing runs on a lost device. With other errors a fence may still be unsignalled.
            if constexpr (function == Function::WaitForFences || function == Function::DeviceWaitIdle)
                if (failure == lostDevice) (void)next(arguments...);
            (spoil(arguments), ...);
            return failure;
        }
        const VkResult result = pass<function>(next, arguments...);
        if (result < 0) return result;
        const std::lock_guard lock(booksMutex);
        if constexpr (effect == Effect::makes) remember<function>(arguments...);
        after(std::integral_constant<Function, function>{}, arguments...);
        return result;
    }
};

PFN_vkGetDeviceProcAddr nextDeviceProcAddr = nullptr;

using PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR = newer::GetCooperativeMatrixShapes;
using PFN_vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV = newer::GetFlexibleDimensions;

template <Function function, Effect effect, class Pointer> PFN_vkVoidFunction wrapped(PFN_vkVoidFunction next) {
    using Own = Wrapper<function, effect, Pointer>;
    Own::next = reinterpret_cast<Pointer>(next);
    return reinterpret_cast<PFN_vkVoidFunction>(static_cast<Pointer>(Own::call));
}

PFN_vkVoidFunction wrap(const char *name, PFN_vkVoidFunction next) {
    if (!next) return nullptr;
    // Functions that Vulkan 1.0 has from an extension.
    if (std::strcmp(name, "vkGetPhysicalDeviceProperties2KHR") == 0) name = "vkGetPhysicalDeviceProperties2";
    if (std::strcmp(name, "vkGetPhysicalDeviceFeatures2KHR") == 0) name = "vkGetPhysicalDeviceFeatures2";
#define VKATTN_SOUND(function, effect)                                                                                                     \
    if (std::strcmp(name, "vk" #function) == 0) return wrapped<Function::function, Effect::effect, PFN_vk##function>(next);
#define VKATTN_FAILING(function, effect, ...) VKATTN_SOUND(function, effect)
    VKATTN_SOUND_FUNCTIONS(VKATTN_SOUND)
    VKATTN_FAILING_FUNCTIONS(VKATTN_FAILING)
#undef VKATTN_SOUND
#undef VKATTN_FAILING
    ledger.unwrapped.insert(name);
    return next;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name) {
    return wrap(name, nextDeviceProcAddr(device, name));
}

} // namespace

std::span<const VkResult> errorsOf(const std::string &function) {
    const Row *row = findRow(function.c_str());
    return row ? std::span<const VkResult>(row->errors) : std::span<const VkResult>();
}

const char *errorName(VkResult error) {
    switch (error) {
#define VKATTN_NAME(name)                                                                                                                  \
    case name:                                                                                                                             \
        return #name;
        VKATTN_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
        VKATTN_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        VKATTN_NAME(VK_ERROR_INITIALIZATION_FAILED)
        VKATTN_NAME(VK_ERROR_DEVICE_LOST)
        VKATTN_NAME(VK_ERROR_MEMORY_MAP_FAILED)
        VKATTN_NAME(VK_ERROR_LAYER_NOT_PRESENT)
        VKATTN_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
        VKATTN_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        VKATTN_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
        VKATTN_NAME(VK_ERROR_TOO_MANY_OBJECTS)
        VKATTN_NAME(VK_ERROR_FRAGMENTED_POOL)
        VKATTN_NAME(VK_ERROR_FRAGMENTATION)
        VKATTN_NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
        VKATTN_NAME(VK_ERROR_INVALID_SHADER_NV)
        VKATTN_NAME(VK_ERROR_UNKNOWN)
#undef VKATTN_NAME
    default:
        return "another VkResult";
    }
}

std::string Ledger::leaks() const {
    std::map<std::string, int> counts;
    for (const auto &[key, maker] : live) ++counts[maker];
    std::string text;
    for (const auto &[maker, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + maker;
    return text;
}

void Ledger::reset() {
    *this = {};
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL faultyGetInstanceProcAddr(VkInstance instance, const char *name) {
    const PFN_vkVoidFunction next = vkGetInstanceProcAddr(instance, name);
    if (next && std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
        nextDeviceProcAddr = reinterpret_cast<PFN_vkGetDeviceProcAddr>(next);
        return reinterpret_cast<PFN_vkVoidFunction>(getDeviceProcAddr);
    }
    return wrap(name, next);
}

} // namespace vkattn::test
