/* vkattn-core by pkg-config, compiled and linked by a C compiler. */
#include "attention.h"

#include <stdio.h>

int main(void) {
    struct gpu_instance instance;
    struct gpu gpu;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    printf("version %u\n", (unsigned)vkattnVersion());
    if (result) return result;
    if (!(result = openHelpfully(&gpu, &instance, 0))) result = attend(&gpu, 6);
    gpuClose(&gpu);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
