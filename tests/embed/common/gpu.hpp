// The functions that hosts in C++ share beside gpu.h: the way from a gpu to a context of
// vkattn::core. C++17.
#pragma once

#include "gpu.h"

#include <vkattn/vkattn.hpp>

// Opens the first device with the extensions that help vkattn. Returns what gpuOpen returns.
inline int gpuOpenHelpful(gpu &own, gpu_instance &instance) {
    const char *helpful[8];
    uint32_t count = 8;
    const VkPhysicalDevice device = gpuPhysicalDevice(&instance, 0);
    if (!device ||
        vkattn::deviceExtensions(vkattn::physicalDevice(instance.getInstanceProcAddr, instance.instance, device, GPU_API_VERSION),
                                 VKATTN_HELPFUL, count, helpful) != VKATTN_OK)
        count = 0;
    return gpuOpen(&own, &instance, 0, helpful, count, nullptr);
}

// Returns the host of a context on the device.
inline vkattn_host hostOf(const gpu &own) {
    return vkattn::host(own.of->getInstanceProcAddr, own.of->instance, own.physicalDevice, own.device, GPU_API_VERSION,
                        {own.extensions, own.extensionCount}, nullptr);
}
