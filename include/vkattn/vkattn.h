/* vkattn/vkattn.h: attention on your Vulkan device, recorded into your command buffer. C99 and C++; includes only
 * vulkan_core.h and works with VK_NO_PROTOTYPES. Target vkattn::core. This header is the manual.
 *
 * The library finds Vulkan only through the vkGetInstanceProcAddr that you pass. It creates no instance, device, queue or
 * memory; never submits, waits, or sees a queue; has no globals, threads, files, environment variables or output.
 *
 *   vkattnCreateContext   once per device, from your handles
 *   vkattnQuery           how large a workspace, which kernel, or unsupported and why
 *   vkattnExplain         the same in detail, from caps alone: why this kernel and not the others
 *   vkattnPrewarm         compile the pipelines a problem needs, on any thread
 *   vkattnRecord          append the dispatches to a command buffer
 *
 * Barriers. Before: inputs visible to VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_READ_BIT; outputs and workspace
 * free to be written, and outputs of dtype f16 or bf16 also to be read, by the same stage (VK_ACCESS_SHADER_READ_BIT |
 * VK_ACCESS_SHADER_WRITE_BIT). Inside: vkattnRecord places compute-to-compute memory barriers where its own dispatches depend
 * on each other. After: outputs were written by VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_WRITE_BIT; making them
 * visible is yours, and so is protecting the workspace before it is used again. No image is touched and no ownership is
 * transferred.
 *
 * Clobbers, in the command buffer: the compute pipeline; compute descriptor set 0 and with it, by Vulkan's pipeline layout compatibility,
 * whatever compute sets you had bound above it; push constants [0, 128). Nothing else.
 *
 * Threads. Every call on one context may run at the same time on any thread, except vkattnDestroyContext; command buffers and
 * descriptor pools are externally synchronised as in Vulkan.
 *
 * Lifetime. No pointer is kept after a call, but for the allocation callbacks (until the context is destroyed) and your
 * pipeline cache handle.
 */
#ifndef VKATTN_VKATTN_H_
#define VKATTN_VKATTN_H_

#include "vkattn/problem.h"

#include <stddef.h>
#ifndef VULKAN_CORE_H_
#include <vulkan/vulkan_core.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define VKATTN_VERSION_MAJOR 0
#define VKATTN_VERSION_MINOR 1
#define VKATTN_VERSION_PATCH 0
#define VKATTN_DEFAULT_MAX_WORKSPACE_BYTES (64ull << 20)

/* (major << 22) | (minor << 12) | patch of the library that is linked, as VK_MAKE_VERSION does. */
VKATTN_API uint32_t vkattnVersion(void);

/* What planning needs to know of a device: plain data, so that plans can be made without one. */
typedef struct vkattn_caps {
    uint32_t structSize;
    uint32_t deviceType;                      /* VkPhysicalDeviceType: CPU devices get other tiles than GPUs */
    uint32_t maxStorageBufferRange;           /* bytes */
    uint32_t minStorageBufferOffsetAlignment; /* bytes */
    uint32_t maxStorageBuffersPerStage;
    uint32_t maxPushConstantsBytes;
    uint32_t maxWorkgroupInvocations;
    uint32_t maxWorkgroupSize[3];
    uint32_t maxWorkgroupCount[3];
    uint32_t maxSharedMemoryBytes;
    uint32_t pushDescriptors;   /* 1: VK_KHR_push_descriptor is enabled */
    uint32_t subgroupSize;      /* lanes; 0: unknown (Vulkan 1.0) */
    uint32_t subgroupShuffle;   /* 1: shuffle and vote operations in compute shaders, and SPIR-V 1.3 */
    uint32_t subgroupClustered; /* 1: clustered operations as well */
    uint32_t floatControlsNan;  /* 1: shaderSignedZeroInfNanPreserveFloat32: NaN rules are guaranteed (docs/numerics.md 4) */
} vkattn_caps;

typedef struct vkattn_host {
    uint32_t structSize;
    uint32_t apiVersion; /* the VkApplicationInfo::apiVersion the instance was created with; 0 = 1.0 */
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    VkDevice device;
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
    const char *const *enabledExtensions; /* device extensions the device was created with: Vulkan cannot be asked later */
    uint32_t enabledExtensionCount;
    VkPipelineCache pipelineCache;          /* optional; stays yours; must outlive the context; not one created with
                                               VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT: prewarming threads share it */
    const VkAllocationCallbacks *allocator; /* optional; the callbacks must outlive the context */
    uint64_t maxWorkspaceBytes;             /* problems are cut into chunks to stay below; 0 = 64 MiB. A plan that cannot stay
                                               below even with one query row at a time asks for what one row takes */
    const void *tuning;                     /* optional: a tuning file's bytes, as `vkattn tune` writes it (docs/tuning.md) */
    size_t tuningBytes;
    const vkattn_caps *capsLimit; /* optional: plan as if the device had at most this (test weak devices on strong ones) */
} vkattn_host;

typedef struct vkattn_requirements {
    uint32_t structSize;
    uint32_t dispatchCount;          /* what vkattnRecord will record */
    uint32_t pipelineCount;          /* distinct pipelines that it uses */
    uint32_t descriptorSetCount;     /* from the pool, where the device lacks push descriptors, else 0 */
    uint32_t storageDescriptorCount; /* VK_DESCRIPTOR_TYPE_STORAGE_BUFFER descriptors from the pool, likewise */
    uint32_t chunkCount;             /* pieces the problem was cut into to meet limits; 1 = whole, 0 = nothing to compute */
    uint64_t workspaceBytes;         /* 0: none needed */
    uint64_t workspaceAlignment;     /* of the binding's offset, bytes */
    const char *kernelName;          /* static storage */
} vkattn_requirements;

typedef struct vkattn_binding {
    vkattn_role role;
    VkBuffer buffer;     /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT */
    VkDeviceSize offset; /* bytes; a multiple of the dtype's size (workspace: workspaceAlignment) */
    VkDeviceSize size;   /* bytes that may be touched from offset. Storage is read in 32-bit words, so bytes up to
                            the next multiple of 4 of the buffer are touched too and must exist in the buffer:
                            make buffers a multiple of 4 bytes long */
} vkattn_binding;

typedef struct vkattn_record {
    uint32_t structSize;
    uint32_t allowCompile;         /* 0: never compile here; answer VKATTN_NOT_READY instead */
    VkCommandBuffer commandBuffer; /* compute-capable family, recording, outside a render pass */
    const vkattn_binding *bindings;
    uint32_t bindingCount;
    VkDescriptorPool descriptorPool; /* only where requirements.descriptorSetCount > 0; the sets die with the pool */
} vkattn_record;

typedef struct vkattn_context_t *vkattn_context;

/* Device extensions that help where the device has them (none is required): enable those that the device lists.
 * Static storage; sets *count. */
VKATTN_API const char *const *vkattnHelpfulDeviceExtensions(uint32_t *count);

/* What a context on such a device would plan with, before any VkDevice exists. `extensions` are those that the device would be created
 * with; set out->structSize first. */
VKATTN_API vkattn_result vkattnPhysicalDeviceCaps(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance,
                                                  VkPhysicalDevice physicalDevice, uint32_t apiVersion, const char *const *extensions,
                                                  uint32_t extensionCount, vkattn_caps *out, vkattn_diagnostic *why);

/* The library's kernels, by index from 0: sets *name (static storage) and returns VKATTN_OK where a device with these caps can run it,
 * UNSUPPORTED with the reason where it cannot, INVALID_ARGUMENT past the last kernel (*name untouched). Where it can run some problems only,
 * VKATTN_OK, and *why says which; why->message is empty where it can run all. */
VKATTN_API vkattn_result vkattnKernelSupport(const vkattn_caps *caps, uint32_t index, const char **name, vkattn_diagnostic *why);

/* Creates a context on your device. *out is NULL on failure. Allocates host memory through host->allocator; the only Vulkan
 * objects are descriptor set layouts and pipeline layouts, later pipelines and shader modules. Errors: INVALID_ARGUMENT, UNSUPPORTED
 * (the device is below the Vulkan 1.0 minimum limits), OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, VULKAN. */
VKATTN_API vkattn_result vkattnCreateContext(const vkattn_host *host, vkattn_context *out, vkattn_diagnostic *why);

/* You guarantee that no command buffer that was recorded with it is still pending. Does not wait. NULL is ignored. */
VKATTN_API void vkattnDestroyContext(vkattn_context context);

/* The caps that plans are made from. Set out->structSize first. */
VKATTN_API vkattn_result vkattnContextCaps(vkattn_context context, vkattn_caps *out);

/* Plans without touching Vulkan. Set out->structSize first. Errors: INVALID_ARGUMENT; UNSUPPORTED with the reason, in which
 * case the CPU (vkattn/cpu.h) takes the same problem. */
VKATTN_API vkattn_result vkattnQuery(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *out,
                                     vkattn_diagnostic *why);

/* What the planner chooses on a device with such caps, why, and what that costs. For people, logs and measurement: nothing here is needed
 * to record. Numbers that a kernel has no use for are 0. */
typedef struct vkattn_explanation {
    uint32_t structSize;
    vkattn_kernel kernel;      /* never AUTO */
    const char *kernelName;    /* static storage */
    const char *form;          /* e.g. "rows in lanes", static storage; empty where the kernel has one form only */
    uint32_t rowsPerWorkgroup; /* of the main dispatches, and likewise the following */
    uint32_t keysPerStep;
    uint32_t packedHeads;   /* query heads of a group that share a tile as rows */
    uint32_t splits;        /* pieces that the keys of a row are split into to run side by side */
    uint32_t dispatchCount; /* these three as in vkattn_requirements */
    uint32_t pipelineCount;
    uint32_t chunkCount;
    uint32_t groups[3];            /* of the first main dispatch */
    uint32_t workgroupInvocations; /* of the first main dispatch */
    uint64_t workspaceBytes;
    double flops;     /* what is computed: pairs that causal, window and lengths known here leave visible by position */
    double flopsFull; /* as if nothing were hidden */
    double bytesRead, bytesWritten;
    char choice[508];                        /* UTF-8, zero-terminated: why this kernel */
    char rejected[VKATTN_KERNEL_COUNT][252]; /* by vkattn_kernel: why not taken; empty for the chosen one and AUTO */
} vkattn_explanation;

/* Plans `problem` for a device with `caps` (vkattnContextCaps, vkattnPhysicalDeviceCaps, or made up) under a workspace cap (0 = 64 MiB) and a tuning file's bytes (NULL, 0: none)
 * without any Vulkan object, as a context on such a device would. Set out->structSize first; written only on VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT; UNSUPPORTED with the reason, where vkattnQuery says so too. */
VKATTN_API vkattn_result vkattnExplain(const vkattn_caps *caps, uint64_t maxWorkspaceBytes, const void *tuning, size_t tuningBytes,
                                       const vkattn_problem *problem, vkattn_explanation *out, vkattn_diagnostic *why);

/* Compiles the pipelines that the problems need and that are not there yet. Slow; any thread. */
VKATTN_API vkattn_result vkattnPrewarm(vkattn_context context, const vkattn_problem *problems, uint32_t problemCount,
                                       vkattn_diagnostic *why);

/* Appends the problem's dispatches and the barriers between them. Bindings: every role that the problem uses, once each, and
 * VKATTN_WORKSPACE where workspaceBytes > 0. Input bindings may overlap each other (V may be a view into K); outputs and workspace
 * overlap nothing else. Returns NOT_READY where a pipeline is missing and allowCompile is 0. Errors before anything is recorded:
 * INVALID_ARGUMENT, UNSUPPORTED, and with allowCompile what compiling answers (OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST,
 * VULKAN). Where the descriptor pool is exhausted or its memory is: OUT_OF_DEVICE_MEMORY or OUT_OF_HOST_MEMORY, and the command buffer may
 * hold part of the work: reset it. */
VKATTN_API vkattn_result vkattnRecord(vkattn_context context, const vkattn_problem *problem, const vkattn_record *record,
                                      vkattn_diagnostic *why);

/* How many pipelines this context has compiled so far, and the nanoseconds that vkCreateComputePipelines took. */
VKATTN_API void vkattnCompileStatistics(vkattn_context context, uint32_t *pipelines, uint64_t *nanoseconds);

#ifdef __cplusplus
}
#endif
#endif
