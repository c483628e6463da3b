/* One small attention on a gpu, for hosts whose point lies elsewhere; c99/main.c shows the same
 * calls in full. Needs vkattn::core alone: the result is compared with loops of this file's own. */
#ifndef ATTENTION_H_
#define ATTENTION_H_

#include "gpu.h"

#include <vkattn/vkattn.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attention {
    struct gpu *gpu;
    vkattn_context context;
    vkattn_problem problem;
};

/* All return GPU_OK, or GPU_FAILED and have printed why. */
/* context, prewarmed; inputs written */
int attentionCreate(struct attention *attention, struct gpu *gpu, unsigned seed);
/* Into the gpu's command buffer, begun and ended. */
int attentionRecord(struct attention *attention);
/* After the submit. */
int attentionCheck(const struct attention *attention);
void attentionDestroy(struct attention *attention);
int attend(struct gpu *gpu, unsigned seed); /* all of it, once */

/* gpuOpen on device `index`, with the extensions that help vkattn. */
int openHelpfully(struct gpu *gpu, struct gpu_instance *instance, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
