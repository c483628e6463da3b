/* The system's Vulkan loader, for hosts that do not link it. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

PFN_vkGetInstanceProcAddr gpuFindLoader(void) {
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    PFN_vkGetInstanceProcAddr function = NULL;
    void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    if (!symbol) printf("skipped: no Vulkan loader (libvulkan.so.1)\n");
    memcpy(&function, &symbol, sizeof function); /* C99 has no cast from data to functions */
    return function;
}
