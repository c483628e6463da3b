/* Two devices of different drivers in one instance: both contexts live at once, both command
 * buffers are recorded before either is submitted. One of the drivers has push descriptors, the
 * other takes sets from the host's pool. */
#include "attention.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    struct gpu_instance instance;
    struct gpu gpu[2];
    struct attention attention[2];
    unsigned n;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    if (result) return result;
    if (gpuCount(&instance) < 2) {
        printf("skipped: there is one Vulkan device; the second, SwiftShader, is put into build/drivers by scripts/test.sh\n");
        return gpuCloseInstance(&instance) ? GPU_FAILED : GPU_SKIPPED;
    }
    for (n = 0; n < 2; ++n)
        if ((result = openHelpfully(&gpu[n], &instance, n))) return result;
    if (strcmp(gpu[0].name, gpu[1].name) == 0) return printf("both devices are %s\n", gpu[0].name), GPU_FAILED;
    for (n = 0; n < 2 && !result; ++n) result = attentionCreate(&attention[n], &gpu[n], 10 + n);
    for (n = 0; n < 2 && !result; ++n) result = attentionRecord(&attention[n]);
    for (n = 0; n < 2 && !result; ++n) result = gpuSubmitAndWait(&gpu[n]);
    for (n = 0; n < 2 && !result; ++n) result = attentionCheck(&attention[n]);
    if (result) return result;
    attentionDestroy(&attention[0]); /* the other goes on */
    gpuClose(&gpu[0]);
    if (!(result = attentionRecord(&attention[1])) && !(result = gpuSubmitAndWait(&gpu[1]))) result = attentionCheck(&attention[1]);
    attentionDestroy(&attention[1]);
    gpuClose(&gpu[1]);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
