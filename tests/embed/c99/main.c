/* Attention in a C99 engine: grouped heads, a bias and a window, recorded into the engine's
 * command buffer, compared with the oracle. */
#include <vkattn/vkattn.h>

#include <vkattn/cpu.h>

#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef VULKAN_H_
#error "vkattn.h includes more than vulkan_core.h"
#endif

enum { HEADS = 6, KV_HEADS = 2, QUERIES = 50, KEYS = 81, DIM = 32, OPERANDS = 5 };

static vkattn_layout packed(uint32_t heads, uint32_t tokens, uint32_t dim) {
    vkattn_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.dtype = VKATTN_F32;
    layout.extent[0] = 1, layout.extent[1] = heads, layout.extent[2] = tokens, layout.extent[3] = dim;
    layout.strideElems[1] = (int64_t)tokens * dim, layout.strideElems[2] = dim, layout.strideElems[3] = 1;
    return layout;
}

static int fails(const char *call, vkattn_result result, const vkattn_diagnostic *why) {
    if (result != VKATTN_OK) printf("%s: %d, %s\n", call, (int)result, why->message);
    return result != VKATTN_OK;
}

static int run(struct gpu *gpu, vkattn_context context) {
    static const vkattn_role roles[OPERANDS] = {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_BIAS, VKATTN_OUT};
    vkattn_problem problem;
    vkattn_requirements needs;
    vkattn_record record;
    vkattn_binding bindings[OPERANDS + 1];
    vkattn_operand_memory memory[OPERANDS];
    vkattn_diagnostic why = {0, ""};
    const float *out;
    float *expected;
    double worst = 0;
    uint64_t at = 0;
    size_t n;
    vkattn_result result;

    memset(&problem, 0, sizeof problem);
    problem.structSize = sizeof problem;
    problem.q = packed(HEADS, QUERIES, DIM);
    problem.k = problem.v = packed(KV_HEADS, KEYS, DIM);
    problem.out = packed(HEADS, QUERIES, DIM);
    problem.bias = packed(1, QUERIES, KEYS);
    problem.flags = VKATTN_WINDOW;
    problem.windowLeft = 40;
    problem.windowRight = 3;
    memset(&needs, 0, sizeof needs);
    needs.structSize = sizeof needs;
    if (fails("vkattnQuery", vkattnQuery(context, &problem, &needs, &why), &why)) return GPU_FAILED;

    for (n = 0; n < OPERANDS; ++n) {
        bindings[n].role = memory[n].role = roles[n];
        bindings[n].buffer = gpu->buffer;
        bindings[n].offset = at;
        bindings[n].size = vkattnOperandBytes(&problem, roles[n]);
        memory[n].data = gpu->mapped + at;
        memory[n].bytes = (size_t)bindings[n].size;
        at = (at + bindings[n].size + 255) / 256 * 256;
    }
    bindings[OPERANDS].role = VKATTN_WORKSPACE;
    bindings[OPERANDS].buffer = gpu->buffer;
    bindings[OPERANDS].offset = (at + needs.workspaceAlignment - 1) / needs.workspaceAlignment * needs.workspaceAlignment;
    bindings[OPERANDS].size = needs.workspaceBytes;
    if (bindings[OPERANDS].offset + needs.workspaceBytes > GPU_BUFFER_BYTES) return printf("the buffer is too small\n"), GPU_FAILED;
    srand(5);
    for (n = 0; n < at / sizeof(float); ++n) ((float *)(void *)gpu->mapped)[n] = (float)(rand() % 2001 - 1000) / 1000;

    memset(&record, 0, sizeof record);
    record.structSize = sizeof record;
    record.commandBuffer = gpu->commands;
    record.bindings = bindings;
    record.bindingCount = needs.workspaceBytes ? OPERANDS + 1 : OPERANDS;
    record.descriptorPool = gpu->descriptorPool;
    if (gpuBegin(gpu)) return GPU_FAILED;
    result = vkattnRecord(context, &problem, &record, &why);
    if (result != VKATTN_NOT_READY) return printf("nothing is compiled yet, and vkattnRecord answers %d\n", (int)result), GPU_FAILED;
    if (fails("vkattnPrewarm", vkattnPrewarm(context, &problem, 1, &why), &why)) return GPU_FAILED;
    if (fails("vkattnRecord", vkattnRecord(context, &problem, &record, &why), &why)) return GPU_FAILED;
    if (gpuEnd(gpu) || gpuSubmitAndWait(gpu)) return GPU_FAILED;

    out = (const float *)memory[OPERANDS - 1].data;
    expected = (float *)malloc(memory[OPERANDS - 1].bytes);
    memory[OPERANDS - 1].data = expected;
    if (!expected || fails("vkattnCpuOracle", vkattnCpuOracle(&problem, memory, OPERANDS, &why), &why)) return free(expected), GPU_FAILED;
    for (n = 0; n < HEADS * QUERIES * DIM; ++n) {
        const double error = fabs((double)out[n] - (double)expected[n]);
        worst = error <= worst ? worst : error; /* NaN stays */
    }
    free(expected);
    printf("%s, %s kernel: largest difference from the oracle %g\n", gpu->name, needs.kernelName, worst);
    return worst < 1e-5 ? GPU_OK : GPU_FAILED;
}

int main(void) {
    struct gpu_instance instance;
    struct gpu gpu;
    vkattn_host host;
    vkattn_context context = NULL;
    vkattn_diagnostic why = {0, ""};
    const char *helpful[8];
    uint32_t helpfulCount = 8;
    VkPhysicalDeviceFeatures2 features;
    vkattn_feature_storage room;
    vkattn_physical_device device;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    if (result) return result;
    memset(&features, 0, sizeof features);
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    memset(&device, 0, sizeof device);
    device.structSize = sizeof device;
    device.apiVersion = GPU_API_VERSION;
    device.instance = instance.instance;
    device.physicalDevice = gpuPhysicalDevice(&instance, 0);
    device.getInstanceProcAddr = instance.getInstanceProcAddr;
    /* Before the device: extensions that help, and their features in this host's own chain. */
    if (device.physicalDevice &&
        (fails("vkattnDeviceExtensions", vkattnDeviceExtensions(&device, VKATTN_HELPFUL, &helpfulCount, helpful, &why), &why) ||
         fails("vkattnPatchDeviceFeatures", vkattnPatchDeviceFeatures(&device, helpful, helpfulCount, &features, &room, &why), &why)))
        return GPU_FAILED;
    result = gpuOpen(&gpu, &instance, 0, helpful, helpfulCount, &features);
    if (result) return result;

    memset(&host, 0, sizeof host);
    host.structSize = sizeof host;
    host.apiVersion = GPU_API_VERSION;
    host.instance = instance.instance;
    host.physicalDevice = gpu.physicalDevice;
    host.device = gpu.device;
    host.getInstanceProcAddr = instance.getInstanceProcAddr;
    host.enabledExtensions = gpu.extensions;
    host.enabledExtensionCount = gpu.extensionCount;
    host.enabledFeatures = &features;
    result = fails("vkattnCreateContext", vkattnCreateContext(&host, &context, &why), &why) ? GPU_FAILED : run(&gpu, context);
    vkattnDestroyContext(context);
    gpuClose(&gpu);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
