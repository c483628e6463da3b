/* What any Vulkan host has: an instance, a device, a queue, a command buffer, a mapped storage
 * buffer. None of it is vkattn's, and none of it calls a Vulkan function by name, so that the
 * host decides where those come from. C99.
 *
 * Where the Khronos validation layer is installed it is on, with synchronization validation:
 * gpuOpen first makes a hazard on purpose and fails if the layer does not report it;
 * gpuCloseInstance fails if it reported anything else. */
#ifndef GPU_H_
#define GPU_H_

#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Also exit codes; failures and skips have printed why. */
enum { GPU_OK = 0, GPU_FAILED = 1, GPU_SKIPPED = 77 };

struct gpu_instance {
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger; /* VK_NULL_HANDLE: no validation layer here */
    /* Messages of the layer: about the hazard made on purpose, and others. */
    unsigned expected, unexpected;
    int expecting;
};

#define GPU_DEVICE_FUNCTIONS(X)                                                                                                            \
    X(DestroyDevice)                                                                                                                       \
    X(GetDeviceQueue)                                                                                                                      \
    X(CreateCommandPool)                                                                                                                   \
    X(DestroyCommandPool)                                                                                                                  \
    X(AllocateCommandBuffers)                                                                                                              \
    X(BeginCommandBuffer)                                                                                                                  \
    X(EndCommandBuffer)                                                                                                                    \
    X(ResetCommandPool)                                                                                                                    \
    X(CmdPipelineBarrier)                                                                                                                  \
    X(CmdFillBuffer)                                                                                                                       \
    X(QueueSubmit)                                                                                                                         \
    X(QueueWaitIdle)                                                                                                                       \
    X(CreateBuffer)                                                                                                                        \
    X(DestroyBuffer)                                                                                                                       \
    X(GetBufferMemoryRequirements)                                                                                                         \
    X(AllocateMemory)                                                                                                                      \
    X(FreeMemory)                                                                                                                          \
    X(BindBufferMemory)                                                                                                                    \
    X(MapMemory)                                                                                                                           \
    X(CreateDescriptorPool)                                                                                                                \
    X(DestroyDescriptorPool)                                                                                                               \
    X(ResetDescriptorPool)

struct gpu {
    struct gpu_instance *of;
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    VkPhysicalDevice physicalDevice;
    VkDevice device;
    VkQueue queue;
    VkCommandPool commandPool;
    VkCommandBuffer commands;
    VkDescriptorPool descriptorPool; /* 64 sets, 256 storage buffers */
    VkBuffer buffer;                 /* storage, 4 MiB, mapped and coherent */
    VkDeviceMemory memory;
    unsigned char *mapped;
    /* Those of gpuOpen's `wanted` that the device has: it was created with them. */
    const char *extensions[8];
    uint32_t extensionCount;
    struct {
#define GPU_FIELD(name) PFN_vk##name name;
        GPU_DEVICE_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
    } vk;
};

#define GPU_API_VERSION VK_API_VERSION_1_1
#define GPU_BUFFER_BYTES (4u << 20)

PFN_vkGetInstanceProcAddr gpuFindLoader(void); /* dlopen; loader.c */

int gpuOpenInstance(struct gpu_instance *instance, PFN_vkGetInstanceProcAddr getInstanceProcAddr);
uint32_t gpuCount(const struct gpu_instance *instance);
/* VK_NULL_HANDLE where there are fewer. */
VkPhysicalDevice gpuPhysicalDevice(const struct gpu_instance *instance, uint32_t index);
/* `features`: NULL, or the chain for VkDeviceCreateInfo::pNext. */
int gpuOpen(struct gpu *gpu, struct gpu_instance *instance, uint32_t index, const char *const *wanted, uint32_t wantedCount,
            const VkPhysicalDeviceFeatures2 *features);
/* Resets the command buffer and the descriptor pool, and begins. */
int gpuBegin(struct gpu *gpu);
int gpuEnd(struct gpu *gpu);           /* makes what compute wrote visible to the host, and ends */
int gpuSubmitAndWait(struct gpu *gpu); /* the command buffer, once */
void gpuClose(struct gpu *gpu);
/* GPU_FAILED where the validation layer was not silent. */
int gpuCloseInstance(struct gpu_instance *instance);

#ifdef __cplusplus
}
#endif
#endif
