#include "engine.h"

#include "attention.h"

#include <stdio.h>
#include <string.h>

typedef void (*function)(void);

static struct pointer {
    const char *name;
    function *at, before;
} pointers[] = {
#define POINTER(name) {#name, (function *)(void *)&name, NULL},
#include "volk_pointers.inc"
#undef POINTER
};
enum { COUNT = sizeof pointers / sizeof *pointers };

static int changed(int print) {
    int count = 0, n;
    for (n = 0; n < COUNT; ++n)
        if (*pointers[n].at != pointers[n].before) {
            ++count;
            if (print && count <= 5) printf("the engine's %s has changed\n", pointers[n].name);
        }
    return count;
}

int engineOpen(struct gpu_instance *instance, struct gpu *gpu) {
    int result, loaded = 0, n;
    const PFN_vkCmdDispatch kept = vkCmdDispatch;
    if (volkInitialize() != VK_SUCCESS) return printf("skipped: no Vulkan loader (libvulkan.so.1)\n"), GPU_SKIPPED;
    if ((result = gpuOpenInstance(instance, vkGetInstanceProcAddr))) return result;
    volkLoadInstance(instance->instance);
    if ((result = openHelpfully(gpu, instance, 0))) return result;
    volkLoadDevice(gpu->device);
    for (n = 0; n < COUNT; ++n) {
        pointers[n].before = *pointers[n].at;
        loaded += pointers[n].before != NULL;
    }
    if (loaded < 150 || !vkCmdDispatch) return printf("volk has loaded only %d functions\n", loaded), GPU_FAILED;
    /* What this host proves is worth something only if a change would be seen. */
    vkCmdDispatch = kept;
    if (changed(0) != 1) return printf("the comparison does not see a pointer that was changed on purpose\n"), GPU_FAILED;
    for (n = 0; n < COUNT; ++n) *pointers[n].at = pointers[n].before;
    printf("%d of volk's %d pointers are loaded\n", loaded, COUNT);
    return GPU_OK;
}

int enginePointersAreIntact(void) {
    const int count = changed(1);
    printf("%d of the engine's pointers have changed\n", count);
    return count ? GPU_FAILED : GPU_OK;
}

int engineStillWorks(struct gpu *gpu) {
    const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL};
    const VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, NULL, 0, NULL};
    unsigned word = 0;
    submit.pCommandBuffers = &gpu->commands;
    if (vkResetCommandPool(gpu->device, gpu->commandPool, 0) || vkBeginCommandBuffer(gpu->commands, &begin)) return GPU_FAILED;
    vkCmdFillBuffer(gpu->commands, gpu->buffer, 0, 64, 0x5a5a5a5au);
    vkCmdPipelineBarrier(gpu->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    if (vkEndCommandBuffer(gpu->commands) || vkQueueSubmit(gpu->queue, 1, &submit, VK_NULL_HANDLE) || vkQueueWaitIdle(gpu->queue))
        return printf("the engine's own commands fail\n"), GPU_FAILED;
    memcpy(&word, gpu->mapped, sizeof word);
    return word == 0x5a5a5a5au ? GPU_OK : (printf("the engine's own fill wrote %x\n", word), GPU_FAILED);
}
