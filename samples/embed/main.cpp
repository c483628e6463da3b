// Attention inside somebody else's Vulkan program: device, memory, queue and command buffer are the
// host's own, vkattn::core only records. The part between the README marks is what vkattn adds to
// an engine; in Engine::start it says what to enable on the device.
#include <vkattn/vkattn.hpp>

#include <vulkan/vulkan.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// The objects that any engine already has: a device and host-visible storage buffers.
struct Engine {
    uint32_t apiVersion = VK_API_VERSION_1_0; // the version that the instance was created with
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physicalDevice = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commandBuffer = VK_NULL_HANDLE;
    VkDescriptorPool descriptorPool = VK_NULL_HANDLE;
    std::vector<const char *> extensions; // the extensions that the device was created with
    VkPhysicalDeviceFeatures2 features{};
    vkattn_feature_storage featureStorage{};
    std::vector<VkBuffer> buffers;
    std::vector<VkDeviceMemory> memories;

    bool start();
    // Returns VK_NULL_HANDLE for 0 bytes, and where there is no memory.
    VkBuffer buffer(VkDeviceSize bytes, float **mapped = nullptr);
    bool submitAndWait();
    ~Engine();
};

bool Engine::start() {
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

    // Extensions and features that make vkattn faster, beside the engine's own (it has none).
    // docs/embedding.md, step 1.
    uint32_t helpful = 0;
    const vkattn_physical_device asked = vkattn::physicalDevice(vkGetInstanceProcAddr, instance, physicalDevice, apiVersion);
    if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, helpful)) return false;
    extensions.resize(helpful);
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, helpful, extensions) ||
        vkattn::patchFeatures(asked, extensions, features, featureStorage))
        return false;

    const float priority = 1;
    VkDeviceQueueCreateInfo queueInfo{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, family, 1, &priority};
    VkDeviceCreateInfo deviceInfo{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                  features.pNext ? &features : nullptr,
                                  0,
                                  1,
                                  &queueInfo,
                                  0,
                                  nullptr,
                                  static_cast<uint32_t>(extensions.size()),
                                  extensions.data(),
                                  nullptr};
    if (vkCreateDevice(physicalDevice, &deviceInfo, nullptr, &device)) return false;
    vkGetDeviceQueue(device, family, 0, &queue);
    VkCommandPoolCreateInfo poolInfo{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family};
    if (vkCreateCommandPool(device, &poolInfo, nullptr, &pool)) return false;
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool, VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    if (vkAllocateCommandBuffers(device, &allocate, &commandBuffer)) return false;
    VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 64};
    VkDescriptorPoolCreateInfo descriptorInfo{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr, 0, 16, 1, &size};
    if (vkCreateDescriptorPool(device, &descriptorInfo, nullptr, &descriptorPool)) return false;
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
                                   nullptr};
    return vkBeginCommandBuffer(commandBuffer, &begin) == VK_SUCCESS;
}

VkBuffer Engine::buffer(VkDeviceSize bytes, float **mapped) {
    VkBufferCreateInfo bufferInfo{
        VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, nullptr, 0, bytes, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, VK_SHARING_MODE_EXCLUSIVE, 0, nullptr};
    VkBuffer made = VK_NULL_HANDLE;
    if (bytes == 0 || vkCreateBuffer(device, &bufferInfo, nullptr, &made)) return VK_NULL_HANDLE;
    buffers.push_back(made);
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(device, made, &requirements);
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(physicalDevice, &types);
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while (type < types.memoryTypeCount &&
           !((requirements.memoryTypeBits >> type & 1) && (types.memoryTypes[type].propertyFlags & wanted) == wanted))
        ++type;
    VkMemoryAllocateInfo memoryInfo{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, requirements.size, type};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    if (type == types.memoryTypeCount || vkAllocateMemory(device, &memoryInfo, nullptr, &memory)) return VK_NULL_HANDLE;
    memories.push_back(memory);
    void *address = nullptr;
    if (vkBindBufferMemory(device, made, memory, 0) || (mapped && vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &address)))
        return VK_NULL_HANDLE;
    if (mapped) *mapped = static_cast<float *>(address);
    return made;
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
        for (VkBuffer made : buffers) vkDestroyBuffer(device, made, nullptr);
        for (VkDeviceMemory memory : memories) vkFreeMemory(device, memory, nullptr);
        vkDestroyCommandPool(device, pool, nullptr);
        vkDestroyDevice(device, nullptr);
    }
    if (instance) vkDestroyInstance(instance, nullptr);
}

} // namespace

int main() {
    constexpr uint32_t heads = 8, tokens = 128, dim = 64, elements = heads * tokens * dim;
    constexpr VkDeviceSize bytes = elements * sizeof(float);
    Engine engine;
    if (!engine.start()) {
        std::puts("no Vulkan device here: vkattn/cpu.h computes the same problem without one");
        return 0;
    }
    float *mapped[4] = {};
    VkBuffer buffers[4];
    for (int n = 0; n < 4; ++n) {
        buffers[n] = engine.buffer(bytes, &mapped[n]);
        if (!buffers[n]) return 1;
        for (uint32_t e = 0; e < elements; ++e)
            mapped[n][e] = std::sin(0.37f * static_cast<float>((e + 977 * static_cast<uint32_t>(n)) % 9973));
    }
    const auto [q, k, v, out] = buffers;

    // clang-format off
    // README begin
    vkattn::Context attention; // once per device, created with these extensions and features
    if (attention.create(vkattn::host(vkGetInstanceProcAddr, engine.instance, engine.physicalDevice, engine.device, engine.apiVersion,
                                      engine.extensions, &engine.features)) != VKATTN_OK) return 1;
    const vkattn_layout layout = vkattn::packed(VKATTN_F32, 1, heads, tokens, dim);
    vkattn_problem problem = vkattn::problem(layout, layout, layout, layout); // Q, K, V, output
    problem.flags = VKATTN_CAUSAL;
    vkattn_requirements needs{}; // which kernel, how much scratch memory
    if (attention.query(problem, needs) != VKATTN_OK || attention.prewarm({&problem, 1}) != VKATTN_OK) return 1;
    const VkBuffer scratch = engine.buffer(needs.workspaceBytes); // often 0 bytes: then none
    const vkattn_binding bindings[] = {{VKATTN_Q, q, 0, bytes}, {VKATTN_K, k, 0, bytes}, {VKATTN_V, v, 0, bytes},
                                       {VKATTN_OUT, out, 0, bytes}, {VKATTN_WORKSPACE, scratch, 0, needs.workspaceBytes}};
    if (attention.record(problem, engine.commandBuffer, bindings, engine.descriptorPool) != VKATTN_OK) return 1;
    // README end
    // clang-format on

    if (!engine.submitAndWait()) return 1;
    // The first row of causal attention sees one key only: the result must be V's first row.
    float worst = 0;
    for (uint32_t d = 0; d < dim; ++d) worst = std::fmax(worst, std::fabs(mapped[3][d] - mapped[2][d]));
    std::printf("%s kernel recorded, submitted, read back: first row differs from V's by %g\n", needs.kernelName,
                static_cast<double>(worst));
    return worst < 1e-6f ? 0 : 1;
}
