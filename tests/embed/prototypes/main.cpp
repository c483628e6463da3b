// Vulkan's functions by name: they are the loader's, whatever vkattn links, and vkattn gets the
// loader's vkGetInstanceProcAddr.
#include <vulkan/vulkan.h>

#include "attention.h"

#include <vkattn/runtime.hpp>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace {

bool isTheLoaders(const char *name, const void *function) {
    Dl_info from{};
    if (dladdr(function, &from) && from.dli_fname && std::strstr(from.dli_fname, "libvulkan")) return true;
    std::printf("%s comes from %s and not from the Vulkan loader\n", name, from.dli_fname ? from.dli_fname : "nowhere");
    return false;
}
template <class Function> const void *address(Function *function) {
    return reinterpret_cast<const void *>(function);
}

// The engine's own submit, by name.
int run(gpu &own) {
    attention a;
    int result = attentionCreate(&a, &own, 4);
    if (!result) result = attentionRecord(&a);
    VkFence fence = VK_NULL_HANDLE;
    VkFenceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &own.commands;
    if (!result && (vkCreateFence(own.device, &info, nullptr, &fence) || vkQueueSubmit(own.queue, 1, &submit, fence) ||
                    vkWaitForFences(own.device, 1, &fence, VK_TRUE, UINT64_MAX)))
        result = GPU_FAILED;
    vkDestroyFence(own.device, fence, nullptr);
    if (!result) result = attentionCheck(&a);
    attentionDestroy(&a);
    return result;
}

} // namespace

int main() {
    if (!isTheLoaders("vkGetInstanceProcAddr", address(vkGetInstanceProcAddr)) || !isTheLoaders("vkCmdDispatch", address(vkCmdDispatch)) ||
        !isTheLoaders("vkCreateDevice", address(vkCreateDevice)))
        return GPU_FAILED;
    std::string whyEmpty; // brings all of vkattn::runtime into the program
    std::printf("vkattn::runtime sees %zu devices\n", vkattn::Runtime::devices(&whyEmpty).size());
    gpu_instance instance;
    gpu own;
    int result = gpuOpenInstance(&instance, vkGetInstanceProcAddr);
    if (!result) result = openHelpfully(&own, &instance, 0);
    if (result) return result;
    result = run(own);
    gpuClose(&own);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
