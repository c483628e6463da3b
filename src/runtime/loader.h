/* The system's Vulkan loader, found by volk. */
#ifndef VKATTN_RUNTIME_LOADER_H_
#define VKATTN_RUNTIME_LOADER_H_

#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL where there is no loader on this machine. */
PFN_vkGetInstanceProcAddr vkattnRuntimeFindLoader(void);

#ifdef __cplusplus
}
#endif
#endif
