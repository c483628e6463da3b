#define VK_NO_PROTOTYPES
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const layer = "VK_LAYER_KHRONOS_validation";

static int failed(const char *what, int result) {
    printf("host: %s failed (%d)\n", what, result);
    return GPU_FAILED;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL onMessage(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                                                const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    struct gpu_instance *instance = (struct gpu_instance *)user;
    (void)severity, (void)types;
    if (instance->expecting && data->pMessageIdName && strstr(data->pMessageIdName, "SYNC-HAZARD")) {
        ++instance->expected;
    } else {
        ++instance->unexpected;
        printf("validation: %s\n", data->pMessage);
    }
    return VK_FALSE;
}

#define INSTANCE_FUNCTION(of, name) ((PFN_##name)(of)->getInstanceProcAddr((of)->instance, #name))

static int layerIsInstalled(const struct gpu_instance *instance) {
    VkLayerProperties *list;
    uint32_t count = 0, n;
    int found = 0;
    const PFN_vkEnumerateInstanceLayerProperties enumerate = INSTANCE_FUNCTION(instance, vkEnumerateInstanceLayerProperties);
    if (enumerate(&count, NULL) != VK_SUCCESS || count == 0) return 0;
    list = (VkLayerProperties *)calloc(count, sizeof *list);
    if (list && enumerate(&count, list) >= 0)
        for (n = 0; n < count; ++n) found |= strcmp(list[n].layerName, layer) == 0;
    free(list);
    return found;
}

int gpuOpenInstance(struct gpu_instance *instance, PFN_vkGetInstanceProcAddr getInstanceProcAddr) {
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    const VkValidationFeatureEnableEXT enable = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, GPU_API_VERSION};
    VkValidationFeaturesEXT features = {VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, NULL, 1, NULL, 0, NULL};
    VkDebugUtilsMessengerCreateInfoEXT messenger = {VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT, NULL, 0, 0, 0, NULL, NULL};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, NULL, 0, NULL, 0, NULL};
    VkResult result;
    memset(instance, 0, sizeof *instance);
    if (!getInstanceProcAddr) return GPU_SKIPPED;
    instance->getInstanceProcAddr = getInstanceProcAddr;
    messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    messenger.pfnUserCallback = onMessage;
    messenger.pUserData = instance;
    features.pEnabledValidationFeatures = &enable;
    /* What goes wrong while the instance is made or destroyed is reported too. */
    features.pNext = &messenger;
    info.pApplicationInfo = &application;
    if (layerIsInstalled(instance)) {
        info.pNext = &features;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.enabledExtensionCount = 2;
        info.ppEnabledExtensionNames = extensions;
    } else {
        printf("skipped: validation, because %s is not installed; the host itself runs\n", layer);
    }
    result = INSTANCE_FUNCTION(instance, vkCreateInstance)(&info, NULL, &instance->instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        printf("skipped: no Vulkan driver\n");
        return GPU_SKIPPED;
    }
    if (result) return failed("vkCreateInstance", result);
    if (info.enabledLayerCount) {
        result = INSTANCE_FUNCTION(instance, vkCreateDebugUtilsMessengerEXT)(instance->instance, &messenger, NULL, &instance->messenger);
        if (result) return failed("vkCreateDebugUtilsMessengerEXT", result);
    }
    return GPU_OK;
}

uint32_t gpuCount(const struct gpu_instance *instance) {
    uint32_t count = 0;
    INSTANCE_FUNCTION(instance, vkEnumeratePhysicalDevices)(instance->instance, &count, NULL);
    return count;
}

static void chooseExtensions(struct gpu *gpu, const char *const *wanted, uint32_t wantedCount) {
    const PFN_vkEnumerateDeviceExtensionProperties enumerate = INSTANCE_FUNCTION(gpu->of, vkEnumerateDeviceExtensionProperties);
    VkExtensionProperties *list;
    uint32_t count = 0, n, m;
    enumerate(gpu->physicalDevice, NULL, &count, NULL);
    list = (VkExtensionProperties *)calloc(count + 1u, sizeof *list);
    if (list && enumerate(gpu->physicalDevice, NULL, &count, list) >= 0)
        for (n = 0; n < wantedCount && gpu->extensionCount < 8; ++n)
            for (m = 0; m < count; ++m)
                if (strcmp(list[m].extensionName, wanted[n]) == 0) {
                    gpu->extensions[gpu->extensionCount++] = wanted[n];
                    break;
                }
    free(list);
}

static int makeDevice(struct gpu *gpu, uint32_t *family, const VkPhysicalDeviceFeatures2 *features) {
    const float priority = 1;
    VkQueueFamilyProperties families[16];
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, NULL};
    VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, NULL, 0, NULL, 0, NULL, NULL};
    PFN_vkGetDeviceProcAddr getDeviceProcAddr;
    uint32_t count = 16;
    VkResult result;
    INSTANCE_FUNCTION(gpu->of, vkGetPhysicalDeviceQueueFamilyProperties)(gpu->physicalDevice, &count, families);
    for (*family = 0; *family < count && !(families[*family].queueFlags & VK_QUEUE_COMPUTE_BIT); ++*family) {
    }
    if (*family == count) {
        printf("skipped: %s has no queue family with compute\n", gpu->name);
        return GPU_SKIPPED;
    }
    queue.queueFamilyIndex = *family;
    queue.pQueuePriorities = &priority;
    info.pNext = features;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = gpu->extensionCount;
    info.ppEnabledExtensionNames = gpu->extensions;
    result = INSTANCE_FUNCTION(gpu->of, vkCreateDevice)(gpu->physicalDevice, &info, NULL, &gpu->device);
    if (result) return failed("vkCreateDevice", result);
    getDeviceProcAddr = INSTANCE_FUNCTION(gpu->of, vkGetDeviceProcAddr);
#define LOAD(name)                                                                                                                         \
    gpu->vk.name = (PFN_vk##name)getDeviceProcAddr(gpu->device, "vk" #name);                                                               \
    if (!gpu->vk.name) return failed("vkGetDeviceProcAddr of vk" #name, 0);
    GPU_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    gpu->vk.GetDeviceQueue(gpu->device, *family, 0, &gpu->queue);
    return GPU_OK;
}

static int makeBuffer(struct gpu *gpu) {
    VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, NULL, 0, GPU_BUFFER_BYTES, 0, VK_SHARING_MODE_EXCLUSIVE, 0, NULL};
    VkMemoryAllocateInfo allocate = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 0, 0};
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties types;
    VkMemoryRequirements needs;
    void *address = NULL;
    uint32_t type;
    VkResult result;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    result = gpu->vk.CreateBuffer(gpu->device, &info, NULL, &gpu->buffer);
    if (result) return failed("vkCreateBuffer", result);
    gpu->vk.GetBufferMemoryRequirements(gpu->device, gpu->buffer, &needs);
    INSTANCE_FUNCTION(gpu->of, vkGetPhysicalDeviceMemoryProperties)(gpu->physicalDevice, &types);
    for (type = 0; type < types.memoryTypeCount; ++type)
        if ((needs.memoryTypeBits >> type & 1u) && (types.memoryTypes[type].propertyFlags & wanted) == wanted) break;
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = type;
    if (type == types.memoryTypeCount) return failed("looking for mapped memory", 0);
    if ((result = gpu->vk.AllocateMemory(gpu->device, &allocate, NULL, &gpu->memory)) ||
        (result = gpu->vk.BindBufferMemory(gpu->device, gpu->buffer, gpu->memory, 0)) ||
        (result = gpu->vk.MapMemory(gpu->device, gpu->memory, 0, VK_WHOLE_SIZE, 0, &address)))
        return failed("allocating, binding or mapping memory", result);
    gpu->mapped = (unsigned char *)address;
    return GPU_OK;
}

static int makePools(struct gpu *gpu, uint32_t family) {
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, 0};
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, VK_NULL_HANDLE,
                                            VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 256};
    VkDescriptorPoolCreateInfo descriptors = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, 64, 1, NULL};
    VkResult result;
    pool.queueFamilyIndex = family;
    descriptors.pPoolSizes = &size;
    if ((result = gpu->vk.CreateCommandPool(gpu->device, &pool, NULL, &gpu->commandPool))) return failed("vkCreateCommandPool", result);
    allocate.commandPool = gpu->commandPool;
    if ((result = gpu->vk.AllocateCommandBuffers(gpu->device, &allocate, &gpu->commands)) ||
        (result = gpu->vk.CreateDescriptorPool(gpu->device, &descriptors, NULL, &gpu->descriptorPool)))
        return failed("making a command buffer and a descriptor pool", result);
    return GPU_OK;
}

/* Two writes to the same bytes with nothing between them. Never submitted. */
static int provokeLayer(struct gpu *gpu) {
    const unsigned before = gpu->of->expected;
    if (!gpu->of->messenger) return GPU_OK;
    if (gpuBegin(gpu)) return GPU_FAILED;
    gpu->of->expecting = 1;
    gpu->vk.CmdFillBuffer(gpu->commands, gpu->buffer, 0, 64, 1);
    gpu->vk.CmdFillBuffer(gpu->commands, gpu->buffer, 0, 64, 2);
    gpu->of->expecting = 0;
    if (gpu->of->expected == before) {
        printf("host: the validation layer does not report two unsynchronised writes on %s; its silence would prove nothing\n", gpu->name);
        return GPU_FAILED;
    }
    printf("validation is on: it reports a hazard made on purpose on %s\n", gpu->name);
    return gpuEnd(gpu);
}

VkPhysicalDevice gpuPhysicalDevice(const struct gpu_instance *instance, uint32_t index) {
    VkPhysicalDevice devices[16];
    uint32_t count = 16;
    if (INSTANCE_FUNCTION(instance, vkEnumeratePhysicalDevices)(instance->instance, &count, devices) < 0 || index >= count)
        return VK_NULL_HANDLE;
    return devices[index];
}

int gpuOpen(struct gpu *gpu, struct gpu_instance *instance, uint32_t index, const char *const *wanted, uint32_t wantedCount,
            const VkPhysicalDeviceFeatures2 *features) {
    VkPhysicalDeviceProperties properties;
    uint32_t family;
    int result;
    memset(gpu, 0, sizeof *gpu);
    gpu->of = instance;
    gpu->physicalDevice = gpuPhysicalDevice(instance, index);
    if (!gpu->physicalDevice) {
        printf("skipped: there are %u Vulkan devices, and number %u is wanted\n", (unsigned)gpuCount(instance), (unsigned)index);
        return GPU_SKIPPED;
    }
    INSTANCE_FUNCTION(instance, vkGetPhysicalDeviceProperties)(gpu->physicalDevice, &properties);
    memcpy(gpu->name, properties.deviceName, sizeof gpu->name);
    chooseExtensions(gpu, wanted, wantedCount);
    if ((result = makeDevice(gpu, &family, features))) return result;
    if ((result = makePools(gpu, family))) return result;
    if ((result = makeBuffer(gpu))) return result;
    return provokeLayer(gpu);
}

int gpuBegin(struct gpu *gpu) {
    VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL};
    VkResult result;
    if ((result = gpu->vk.ResetCommandPool(gpu->device, gpu->commandPool, 0)) ||
        (result = gpu->vk.ResetDescriptorPool(gpu->device, gpu->descriptorPool, 0)) ||
        (result = gpu->vk.BeginCommandBuffer(gpu->commands, &begin)))
        return failed("beginning a command buffer", result);
    return GPU_OK;
}

int gpuEnd(struct gpu *gpu) {
    VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    VkResult result;
    gpu->vk.CmdPipelineBarrier(gpu->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0,
                               NULL);
    result = gpu->vk.EndCommandBuffer(gpu->commands);
    return result ? failed("vkEndCommandBuffer", result) : GPU_OK;
}

int gpuSubmitAndWait(struct gpu *gpu) {
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, NULL, 0, NULL};
    VkResult result;
    submit.pCommandBuffers = &gpu->commands;
    if ((result = gpu->vk.QueueSubmit(gpu->queue, 1, &submit, VK_NULL_HANDLE)) || (result = gpu->vk.QueueWaitIdle(gpu->queue)))
        return failed("submitting and waiting", result);
    return GPU_OK;
}

void gpuClose(struct gpu *gpu) {
    if (!gpu->device || !gpu->vk.DestroyDevice) return;
    gpu->vk.DestroyDescriptorPool(gpu->device, gpu->descriptorPool, NULL);
    gpu->vk.DestroyCommandPool(gpu->device, gpu->commandPool, NULL);
    gpu->vk.DestroyBuffer(gpu->device, gpu->buffer, NULL);
    gpu->vk.FreeMemory(gpu->device, gpu->memory, NULL);
    gpu->vk.DestroyDevice(gpu->device, NULL);
    gpu->device = VK_NULL_HANDLE;
}

int gpuCloseInstance(struct gpu_instance *instance) {
    if (!instance->instance) return GPU_OK;
    if (instance->messenger) INSTANCE_FUNCTION(instance, vkDestroyDebugUtilsMessengerEXT)(instance->instance, instance->messenger, NULL);
    INSTANCE_FUNCTION(instance, vkDestroyInstance)(instance->instance, NULL);
    instance->instance = VK_NULL_HANDLE;
    if (!instance->unexpected) return GPU_OK;
    printf("host: the validation layer was not silent (%u messages)\n", instance->unexpected);
    return GPU_FAILED;
}
