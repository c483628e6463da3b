/* An engine on volk: all of volk's pointers loaded for one device, remembered, and compared
 * later. */
#ifndef ENGINE_H_
#define ENGINE_H_

#include <volk.h>

#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* GPU_OK, or why not has been printed. */
int engineOpen(struct gpu_instance *instance, struct gpu *gpu);
int enginePointersAreIntact(void);
/* Records and submits by volk's pointers, after whatever happened since engineOpen. */
int engineStillWorks(struct gpu *gpu);

#ifdef __cplusplus
}
#endif
#endif
