/* volk as one translation unit. The runtime uses it only to find the system's Vulkan loader:
 * every other function is loaded into tables of the runtime's own, so that a program that uses
 * volk too, or the loader's functions, keeps what it has. */
#include "volk_names.h"

#include <volk.c>

#include "runtime/loader.h"

PFN_vkGetInstanceProcAddr vkattnRuntimeFindLoader(void) {
    return volkInitialize() == VK_SUCCESS ? vkGetInstanceProcAddr : NULL;
}
