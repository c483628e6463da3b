/* vkattn::core in an engine that uses volk. */
#include "engine.h"

#include "attention.h"

int main(void) {
    struct gpu_instance instance;
    struct gpu gpu;
    int result = engineOpen(&instance, &gpu);
    if (result) return result;
    result = attend(&gpu, 2) || enginePointersAreIntact() || engineStillWorks(&gpu);
    gpuClose(&gpu);
    return gpuCloseInstance(&instance) || result;
}
