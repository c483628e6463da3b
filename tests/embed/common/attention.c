#define VK_NO_PROTOTYPES
#include "attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 2, TOKENS = 37, DIM = 16, ELEMENTS = HEADS * TOKENS * DIM };
static const VkDeviceSize bytes = ELEMENTS * sizeof(float), step = 8192, workspaceAt = 4 * 8192;

static const float *elements(const struct attention *attention, unsigned operand) {
    return (const float *)(const void *)(attention->gpu->mapped + operand * step);
}

int openHelpfully(struct gpu *gpu, struct gpu_instance *instance, uint32_t index) {
    const VkPhysicalDevice device = gpuPhysicalDevice(instance, index);
    const char *helpful[8];
    uint32_t count = 8;
    const vkattn_physical_device asked = {sizeof asked, GPU_API_VERSION, instance->instance, device, instance->getInstanceProcAddr};
    if (!device || vkattnDeviceExtensions(&asked, VKATTN_HELPFUL, &count, helpful, NULL)) count = 0;
    return gpuOpen(gpu, instance, index, helpful, count, NULL);
}

static int refused(const char *call, vkattn_result result, const vkattn_diagnostic *why) {
    printf("host: %s answers %d: %s\n", call, (int)result, why->message);
    return GPU_FAILED;
}

int attentionCreate(struct attention *attention, struct gpu *gpu, unsigned seed) {
    const vkattn_layout packed = {VKATTN_F32, {1, HEADS, TOKENS, DIM}, {ELEMENTS, TOKENS * DIM, DIM, 1}, 0};
    float *input = (float *)(void *)gpu->mapped;
    vkattn_host host;
    vkattn_diagnostic why = {0, ""};
    vkattn_result result;
    unsigned operand, n;
    memset(attention, 0, sizeof *attention);
    memset(&host, 0, sizeof host);
    attention->gpu = gpu;
    host.structSize = sizeof host;
    host.apiVersion = GPU_API_VERSION;
    host.instance = gpu->of->instance;
    host.physicalDevice = gpu->physicalDevice;
    host.device = gpu->device;
    host.getInstanceProcAddr = gpu->of->getInstanceProcAddr;
    host.enabledExtensions = gpu->extensions;
    host.enabledExtensionCount = gpu->extensionCount;
    if ((result = vkattnCreateContext(&host, &attention->context, &why))) return refused("vkattnCreateContext", result, &why);
    attention->problem.structSize = sizeof attention->problem;
    attention->problem.flags = VKATTN_CAUSAL;
    attention->problem.q = attention->problem.k = attention->problem.v = attention->problem.out = packed;
    if ((result = vkattnPrewarm(attention->context, &attention->problem, 1, &why))) return refused("vkattnPrewarm", result, &why);
    for (operand = 0; operand < 4; ++operand)
        for (n = 0; n < ELEMENTS; ++n) {
            seed = seed * 1664525u + 1013904223u;
            /* out: nobody's */
            input[operand * step / sizeof(float) + n] = operand == 3 ? 1e30f : (float)(seed >> 8) / 8388608.0f - 1;
        }
    return GPU_OK;
}

int attentionRecord(struct attention *attention) {
    const VkBuffer buffer = attention->gpu->buffer;
    vkattn_requirements needs;
    vkattn_record record;
    vkattn_binding bindings[5];
    vkattn_diagnostic why = {0, ""};
    vkattn_result result;
    unsigned n;
    memset(&needs, 0, sizeof needs);
    memset(&record, 0, sizeof record);
    needs.structSize = sizeof needs;
    if ((result = vkattnQuery(attention->context, &attention->problem, &needs, &why))) return refused("vkattnQuery", result, &why);
    if (needs.workspaceBytes > GPU_BUFFER_BYTES - workspaceAt || needs.descriptorSetCount > 64 || needs.storageDescriptorCount > 256) {
        printf("host: vkattnQuery wants more than this host has\n");
        return GPU_FAILED;
    }
    for (n = 0; n < 4; ++n) {
        bindings[n].role = (vkattn_role)(VKATTN_Q + n);
        bindings[n].buffer = buffer;
        bindings[n].offset = n * step;
        bindings[n].size = bytes;
    }
    bindings[4].role = VKATTN_WORKSPACE;
    bindings[4].buffer = buffer;
    bindings[4].offset = workspaceAt;
    bindings[4].size = needs.workspaceBytes;
    if (gpuBegin(attention->gpu)) return GPU_FAILED;
    record.structSize = sizeof record;
    record.commandBuffer = attention->gpu->commands;
    record.bindings = bindings;
    record.bindingCount = needs.workspaceBytes ? 5 : 4;
    record.descriptorPool = attention->gpu->descriptorPool;
    if ((result = vkattnRecord(attention->context, &attention->problem, &record, &why))) return refused("vkattnRecord", result, &why);
    return gpuEnd(attention->gpu);
}

int attentionCheck(const struct attention *attention) {
    const float *q = elements(attention, 0), *k = elements(attention, 1), *v = elements(attention, 2), *out = elements(attention, 3);
    double worst = 0;
    int head, i, j, d;
    for (head = 0; head < HEADS; ++head)
        for (i = 0; i < TOKENS; ++i) {
            double sum = 0, expected[DIM] = {0};
            for (j = 0; j <= i; ++j) {
                double score = 0, weight;
                for (d = 0; d < DIM; ++d) score += (double)q[(head * TOKENS + i) * DIM + d] * (double)k[(head * TOKENS + j) * DIM + d];
                weight = exp(score / sqrt((double)DIM));
                sum += weight;
                for (d = 0; d < DIM; ++d) expected[d] += weight * (double)v[(head * TOKENS + j) * DIM + d];
            }
            for (d = 0; d < DIM; ++d) {
                const double error = fabs((double)out[(head * TOKENS + i) * DIM + d] - expected[d] / sum);
                worst = error <= worst ? worst : error; /* NaN stays */
            }
        }
    printf("attention on %s: largest error %g\n", attention->gpu->name, worst);
    return worst < 1e-5 ? GPU_OK : GPU_FAILED;
}

void attentionDestroy(struct attention *attention) {
    vkattnDestroyContext(attention->context);
    attention->context = NULL;
}

int attend(struct gpu *gpu, unsigned seed) {
    struct attention attention;
    int result = attentionCreate(&attention, gpu, seed);
    if (!result) result = attentionRecord(&attention);
    if (!result) result = gpuSubmitAndWait(gpu);
    if (!result) result = attentionCheck(&attention);
    attentionDestroy(&attention);
    return result;
}
