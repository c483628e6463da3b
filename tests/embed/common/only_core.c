/* A host that has vkattn::core and nothing else. */
#include "attention.h"

int main(void) {
    struct gpu_instance instance;
    struct gpu gpu;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    if (!result && !(result = openHelpfully(&gpu, &instance, 0))) {
        result = attend(&gpu, 1);
        gpuClose(&gpu);
    }
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
