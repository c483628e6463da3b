#include "engine.hpp"

int main() {
    gpu_instance instance;
    gpu own;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    if (!result) {
        const char *helpful[8];
        uint32_t helpfulCount = 8;
        const VkPhysicalDevice device = gpuPhysicalDevice(&instance, 0);
        if (!device ||
            vkattn::deviceExtensions(vkattn::physicalDevice(instance.getInstanceProcAddr, instance.instance, device, GPU_API_VERSION),
                                     VKATTN_HELPFUL, helpfulCount, helpful) != VKATTN_OK)
            helpfulCount = 0;
        result = gpuOpen(&own, &instance, 0, helpful, helpfulCount, nullptr);
    }
    if (result) return result;
    {
        Engine engine(own);
        result = engine.attendOnDevice();
        if (!result) result = engine.attendOnCpu();
    }
    gpuClose(&own);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
