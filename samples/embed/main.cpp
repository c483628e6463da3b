// Attention inside somebody else's Vulkan program: device, memory, queue and command buffer are the host's own, vkattn::core only records.
// The part between the README marks is all that vkattn adds to an engine.
#include <vkattn/vkattn.hpp>

#include <vulkan/vulkan.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// What any engine already has: a device, what it was created with, and a host-visible storage buffer.
struct Engine {
    uint32_t apiVersion = VK_API_VERSION_1_0;
    std::vector<const char *> extensions;
    VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, nullptr, {}};
    vkattn_feature_storage featureRoom{}; // for what vkattn adds to the chain
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physicalDevice = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commandBuffer = VK_NULL_HANDLE;
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDescriptorPool descriptorPool = VK_NULL_HANDLE;
    float *mapped = nullptr;

    bool start(VkDeviceSize bytes);
    bool submitAndWait();
    ~Engine();
};

bool Engine::start(VkDeviceSize bytes) {
    const auto enumerateVersion =
        reinterpret_cast<PFN_vkEnumerateInstanceVersion>(vkGetInstanceProcAddr(VK_NULL_HANDLE, "vkEnumerateInstanceVersion"));
    if (enumerateVersion && enumerateVersion(&apiVersion)) return false;
    apiVersion = std::min<uint32_t>(apiVersion, VK_API_VERSION_1_3);
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "embed", 0, nullptr, 0, apiVersion};
    VkInstanceCreateInfo instanceInfo{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, nullptr, 0, &application, 0, nullptr, 0, nullptr};
    if (vkCreateInstance(&instanceInfo, nullptr, &instance)) return false;
    uint32_t count = 1;
    if (vkEnumeratePhysicalDevices(instance, &count, &physicalDevice) < 0 || count == 0) return false;
    uint32_t familyCount = 0, family = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physicalDevice, &familyCount, nullptr);
    std::vector<VkQueueFamilyProperties> families(familyCount);
    vkGetPhysicalDeviceQueueFamilyProperties(physicalDevice, &familyCount, families.data());
    while (family < familyCount && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) ++family;
    if (family == familyCount) return false;
    const float priority = 1;
    VkDeviceQueueCreateInfo queueInfo{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, family, 1, &priority};
    // What helps vkattn beside what the engine wants for itself; the chain stays empty where the device has nothing of it.
    const vkattn_physical_device asked = vkattn::physicalDevice(vkGetInstanceProcAddr, instance, physicalDevice, apiVersion);
    if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, count)) return false;
    extensions.resize(count);
    if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, count, extensions) ||
        vkattn::patchFeatures(asked, extensions, features, featureRoom))
        return false;
    VkDeviceCreateInfo deviceInfo{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                  features.pNext ? &features : nullptr,
                                  0,
                                  1,
                                  &queueInfo,
                                  0,
                                  nullptr,
                                  count,
                                  extensions.data(),
                                  nullptr};
    if (vkCreateDevice(physicalDevice, &deviceInfo, nullptr, &device)) return false;
    vkGetDeviceQueue(device, family, 0, &queue);
    VkCommandPoolCreateInfo poolInfo{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family};
    if (vkCreateCommandPool(device, &poolInfo, nullptr, &pool)) return false;
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool, VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    if (vkAllocateCommandBuffers(device, &allocate, &commandBuffer)) return false;

    VkBufferCreateInfo bufferInfo{
        VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, nullptr, 0, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, VK_SHARING_MODE_EXCLUSIVE, 0, nullptr};
    if (vkCreateBuffer(device, &bufferInfo, nullptr, &buffer)) return false;
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(device, buffer, &requirements);
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(physicalDevice, &types);
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while (type < types.memoryTypeCount &&
           !((requirements.memoryTypeBits >> type & 1) && (types.memoryTypes[type].propertyFlags & wanted) == wanted))
        ++type;
    VkMemoryAllocateInfo memoryInfo{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, requirements.size, type};
    void *address = nullptr;
    if (type == types.memoryTypeCount || vkAllocateMemory(device, &memoryInfo, nullptr, &memory) ||
        vkBindBufferMemory(device, buffer, memory, 0) || vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &address))
        return false;
    mapped = static_cast<float *>(address);
    VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 64};
    VkDescriptorPoolCreateInfo descriptorInfo{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr, 0, 16, 1, &size};
    if (vkCreateDescriptorPool(device, &descriptorInfo, nullptr, &descriptorPool)) return false;
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
                                   nullptr};
    return vkBeginCommandBuffer(commandBuffer, &begin) == VK_SUCCESS;
}

bool Engine::submitAndWait() {
    // vkattn leaves its output visible to nobody: the host says who reads it, here the host itself.
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                         nullptr);
    if (vkEndCommandBuffer(commandBuffer)) return false;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, nullptr, 0, nullptr, nullptr, 1, &commandBuffer, 0, nullptr};
    return vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS && vkQueueWaitIdle(queue) == VK_SUCCESS;
}

Engine::~Engine() {
    if (device) {
        vkDestroyDescriptorPool(device, descriptorPool, nullptr);
        vkDestroyBuffer(device, buffer, nullptr);
        vkFreeMemory(device, memory, nullptr);
        vkDestroyCommandPool(device, pool, nullptr);
        vkDestroyDevice(device, nullptr);
    }
    if (instance) vkDestroyInstance(instance, nullptr);
}

} // namespace

int main() {
    constexpr uint32_t heads = 8, tokens = 128, dim = 64, elements = heads * tokens * dim;
    constexpr VkDeviceSize bytes = elements * sizeof(float), workspaceAt = 4 * bytes, workspaceRoom = 1 << 20;
    Engine engine;
    if (!engine.start(workspaceAt + workspaceRoom)) {
        std::puts("no Vulkan device here: vkattn/cpu.h computes the same problem without one");
        return 0;
    }
    for (uint32_t n = 0; n < 3 * elements; ++n) engine.mapped[n] = std::sin(0.37f * static_cast<float>(n % 9973)); // Q, K and V

    // clang-format off
    // README begin
    vkattn::Context attention; // once per device
    vkattn_host host{};
    host.structSize = sizeof host;
    host.apiVersion = engine.apiVersion; // the instance's; left 0 it is Vulkan 1.0, and kernels are several times slower
    host.instance = engine.instance, host.physicalDevice = engine.physicalDevice, host.device = engine.device;
    host.getInstanceProcAddr = vkGetInstanceProcAddr;
    host.enabledExtensions = engine.extensions.data(); // as vkCreateDevice got them, and the features too
    host.enabledExtensionCount = static_cast<uint32_t>(engine.extensions.size());
    host.enabledFeatures = &engine.features;
    if (attention.create(host) != VKATTN_OK) return 1;
    const vkattn_layout layout = vkattn::packed(VKATTN_F32, 1, heads, tokens, dim);
    vkattn_problem problem = vkattn::problem(layout, layout, layout, layout); // Q, K, V, output
    problem.flags = VKATTN_CAUSAL;
    vkattn_requirements needs{};
    if (attention.query(problem, needs) != VKATTN_OK || needs.workspaceBytes > workspaceRoom) return 1;
    const vkattn_binding bindings[] = {{VKATTN_Q, engine.buffer, 0, bytes}, {VKATTN_K, engine.buffer, bytes, bytes},
                                       {VKATTN_V, engine.buffer, 2 * bytes, bytes}, {VKATTN_OUT, engine.buffer, 3 * bytes, bytes},
                                       {VKATTN_WORKSPACE, engine.buffer, workspaceAt, workspaceRoom}};
    if (attention.prewarm({&problem, 1}) != VKATTN_OK) return 1;
    if (attention.record(problem, engine.commandBuffer, bindings, engine.descriptorPool) != VKATTN_OK) return 1;
    // README end
    // clang-format on

    if (!engine.submitAndWait()) return 1;
    // Causal attention's first row sees one key only: it must be V's first row.
    const float *v = engine.mapped + 2 * elements, *out = engine.mapped + 3 * elements;
    float worst = 0;
    for (uint32_t d = 0; d < dim; ++d) worst = std::fmax(worst, std::fabs(out[d] - v[d]));
    std::printf("recorded, submitted, read back: first row differs from V's by %g\n", static_cast<double>(worst));
    return worst < 1e-6f ? 0 : 1;
}
