#include "engine.hpp"

int main() {
    gpu_instance instance;
    gpu own;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    if (!result) result = gpuOpenHelpful(own, instance);
    if (result) return result;
    {
        Engine engine(own);
        result = engine.attendOnDevice();
        if (!result) result = engine.attendOnCpu();
    }
    gpuClose(&own);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
